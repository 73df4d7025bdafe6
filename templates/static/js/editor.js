// The rule editor's saving. A draft is saved two seconds after the last key, when a field is left and when the page
// is; until the server has confirmed it, a copy stays in this browser. Nothing that somebody else saved is overwritten:
// the server refuses, and what it says is shown. Another file changes fields and sends "input" events; this one saves.
const PAUSE_MS = 2000;
const COPY_MS = 250;
const RETRY_MS = [5000, 10000, 20000, 30000];
const KEPT_DAYS = 14;
const TYPED = /^(code|target|confusables|text|note|plain-\w+|clause-\d+-\w+|test-\d+-\w+)$/; // fragments bring fields of their own

const form = document.getElementById("rule-form");
const state = document.getElementById("save-state");
const byHand = form.dataset.byHand !== undefined; // a submitted request is edited on purpose only
const token = crypto.randomUUID?.() ?? String(Math.random()).slice(2);
let place = form.dataset.place;
let saved = content();
let timer = 0;
let copyTimer = 0;
let failures = 0;
let blocked = Boolean(document.querySelector("[data-clash]"));
let running = null;
let away = false; // signed out; tried again when the person comes back to this tab

function entries() {
  return [...new FormData(form)].filter(([name]) => TYPED.test(name));
}

function content() {
  return new URLSearchParams(entries()).toString();
}

const dirty = () => content() !== saved;
const field = (name) => form.elements.namedItem(name);
const copyKey = () => `trace-rule:${form.dataset.user}:${place}`;

function show(tone, label, words = "", link = null) {
  const chip = document.createElement("span");
  chip.className = `chip tone-${tone}`;
  const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  icon.setAttribute("class", "icon");
  icon.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `${form.dataset.icons}#s-${tone}`);
  icon.append(use);
  chip.append(icon, label);
  state.replaceChildren(chip, ` ${words} `, ...(link ? [link] : []));
}

function put(target, html) {
  window.htmx.swap(target, html, { swapStyle: "innerHTML" }, { eventInfo: { target } });
}

function clock(when) {
  return new Date(when).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

// The copy in this browser
function keepCopy() {
  clearTimeout(copyTimer);
  if (!dirty()) return;
  const copy = { at: Date.now(), revision: field("revision").value, base: field("base").value, entries: entries() };
  try { localStorage.setItem(copyKey(), JSON.stringify(copy)); } catch { /* full or forbidden: saving still works */ }
}

function dropCopy() {
  clearTimeout(copyTimer);
  localStorage.removeItem(copyKey());
}

function readCopy() {
  try { return JSON.parse(localStorage.getItem(copyKey())); } catch { return null; }
}

function forgetOldCopies() {
  for (const key of Object.keys(localStorage).filter((name) => name.startsWith("trace-rule:"))) {
    let at = 0;
    try { at = JSON.parse(localStorage.getItem(key)).at; } catch { /* not ours to read: old */ }
    if (Date.now() - at > KEPT_DAYS * 86400000) localStorage.removeItem(key);
  }
}

// Saving
const csrf = () => csrfToken() ?? field("csrfmiddlewaretoken").value; // app.js: fresh after signing in elsewhere

function schedule(delay = PAUSE_MS) {
  clearTimeout(timer);
  if (!blocked && !byHand) timer = setTimeout(save, delay);
}

async function save({ leaving = false } = {}) {
  clearTimeout(timer);
  while (running) await running;
  if (blocked || !dirty()) return !blocked;
  running = send(leaving);
  const done = await running;
  running = null;
  return done && (dirty() && !leaving ? save() : true);
}

async function send(leaving) {
  keepCopy();
  show("run", "saving");
  const body = new FormData(form);
  body.delete("csrfmiddlewaretoken");
  body.set("token", token);
  const sent = content();
  let answer;
  try {
    answer = await fetch(form.dataset.save, {
      method: "POST", body, keepalive: leaving,
      headers: { Accept: "application/json", "X-CSRFToken": csrf() },
    });
  } catch {
    return failed("The server cannot be reached.");
  }
  if (answer.status === 401) return signedOut();
  if (answer.status >= 500) return failed(`The server answered ${answer.status}.`);
  const told = answer.headers.get("Content-Type")?.includes("json") ? await answer.json() : {};
  if (answer.ok) return confirmed(told, sent);
  if (told.html) return clashed(told.html);
  show("bad", "not saved", told.message ?? `The server answered ${answer.status}; reload the page. What you typed is kept in this browser.`);
  return false;
}

function confirmed(told, sent) {
  failures = 0;
  if (dirty()) keepCopy();
  const old = copyKey();
  saved = sent;
  for (const name of ["change", "revision", "base"]) field(name).value = told[name];
  if (place !== told.place) {
    localStorage.removeItem(old);
    place = told.place;
    history.replaceState(null, "", told.url);
    form.action = told.url;
    document.querySelector("[data-discard]").hidden = false;
  }
  if (dirty()) keepCopy(); else dropCopy();
  show("good", "saved", `${clock(told.at)}, revision ${told.revision}`);
  return true;
}

function failed(why) {
  const wait = RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)];
  show("bad", "not saved", `${why} What you typed is kept in this browser; trying again in ${wait / 1000} s.`);
  schedule(wait);
  return false;
}

function signedOut() {
  away = blocked = true;
  const link = document.createElement("a");
  link.href = `${form.dataset.login}?next=${encodeURIComponent(location.pathname + location.search)}`;
  link.textContent = "Sign in again";
  show("warn", "not saved", "You are signed out. What you typed is kept in this browser.", link);
  return false;
}

function clashed(html) {
  blocked = true;
  const box = document.getElementById("clash");
  put(box, html);
  show("warn", "not saved", "Somebody else saved meanwhile; see the top of the page.");
  box.scrollIntoView({ block: "center" });
  box.focus({ preventScroll: true });
  return false;
}

// A button that changes the page first waits for what is on its way, so that it names the revision it really has.
let allowed = false;
form.addEventListener("submit", async (event) => {
  if (allowed) return;
  event.preventDefault();
  const button = event.submitter;
  clearTimeout(timer);
  if (button?.value === "save" && !byHand) { await save(); return; }
  while (running) await running;
  if (!blocked && !byHand && button?.value !== "discard" && !(await save())) return;
  if (["discard", "keep"].includes(button?.value)) dropCopy();
  allowed = true;
  setTimeout(() => form.requestSubmit(button)); // a form is not sent from within its own submit event
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-take-theirs]")) dropCopy();
  if (event.target.closest("[data-forget]")) { dropCopy(); location.reload(); }
  if (event.target.closest("[data-restore]")) restore(readCopy());
});

document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.repeat) return;
  if (event.key === "Enter") { event.preventDefault(); document.querySelector("[data-submit-key]").click(); }
  if (event.key === "s") { event.preventDefault(); if (byHand) form.querySelector("[data-save-key]").click(); else save(); }
});

for (const name of ["input", "change"]) {
  form.addEventListener(name, () => {
    form.dispatchEvent(new Event("check"));
    if (!dirty()) return;
    clearTimeout(copyTimer);
    copyTimer = setTimeout(keepCopy, COPY_MS);
    if (!blocked && !running) show("wait", "not saved yet");
    schedule(failures ? RETRY_MS[0] : PAUSE_MS);
  });
}
form.addEventListener("focusout", () => { if (dirty() && !byHand && !blocked && !failures) save(); });
window.addEventListener("online", () => { failures = 0; save(); });
for (const name of ["pagehide", "visibilitychange"]) {
  document.defaultView.addEventListener(name, leave, true);
}

function leave(event) {
  if (event.type === "visibilitychange" && document.visibilityState !== "hidden") return;
  if (allowed || !dirty()) return;
  keepCopy();
  if (!byHand && !running) save({ leaving: true });
}

document.addEventListener("htmx:responseError", (event) => { if (event.detail.xhr.status === 401) signedOut(); });
window.addEventListener("focus", () => { if (away) { away = blocked = false; save(); } });

// What an earlier visit could not save
async function restore(copy) {
  const body = new URLSearchParams(copy.entries);
  body.set("rule", field("rule").value);
  body.set("domain", field("domain").value);
  const answer = await fetch(form.dataset.fields, { method: "POST", body, headers: { "X-CSRFToken": csrf() } });
  if (!answer.ok || answer.redirected) return;
  put(document.getElementById("editor-fields"), await answer.text());
  field("revision").value = copy.revision;
  field("base").value = copy.base;
  tellRestored(copy, "is back in the form.");
  form.dispatchEvent(new Event("restored", { bubbles: true }));
  form.dispatchEvent(new Event("input"));
}

function tellRestored(copy, words) {
  const note = document.getElementById("restored");
  note.hidden = false;
  note.querySelector("p").textContent = `What you typed here at ${clock(copy.at)} was not saved; it ${words}`;
  note.querySelector("[data-restore]").hidden = words.startsWith("is back");
}

forgetOldCopies();
const early = [...form.elements].some((one) => TYPED.test(one.name) && typed(one)); // before this script was here
const copy = blocked ? null : readCopy();
const same = copy && new URLSearchParams(copy.entries).toString() === saved;
if (same) dropCopy();
else if (copy && !early && copy.revision === field("revision").value) restore(copy);
else if (copy) tellRestored(copy, early ? "is kept in this browser." : "is kept in this browser. Another version was saved since.");
if (early) saved = "";
if (early && (!copy || same)) form.dispatchEvent(new Event("input")); // else the copy would be overwritten unseen
