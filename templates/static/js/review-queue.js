// The items this tab holds: one on the screen, one fetched ahead. The next one shows only when the server has said yes.
const BEAT_MS = 60_000;
const REPAIR_MS = 500; // what the page before this one gave back while it left is claimed again
const IDLE_MS = 600_000; // who has gone does not keep items from others
const queue = {
  ahead: [], behind: [], fetching: null, beating: Promise.resolve(), busy: false, shownAt: 0, seenFrom: 0, touchedAt: 0, last: null,
};

const review = () => document.getElementById("review");
const shown = () => document.getElementById("item");
const held = () => [shown(), ...queue.ahead, ...queue.behind].filter((item) => item.dataset.item);

class Refusal extends Error {
  constructor(status, words, code = "") { super(words); this.status = status; this.code = code; }
}

// A JSON answer as an object, a fragment as its element; everything else is a Refusal with words for the reader.
async function ask(url, { body, fragment = false } = {}) {
  const headers = fragment ? { "HX-Request": "true" } : { Accept: "application/json" };
  if (csrfToken()) headers["X-CSRFToken"] = csrfToken();
  let answer;
  try {
    answer = await fetch(url, { method: body ? "POST" : "GET", body, headers, credentials: "same-origin" });
  } catch {
    throw new Refusal(0, "The server cannot be reached, so nothing was decided. Try again: nothing is decided twice.");
  }
  if (answer.status === 401) throw new Refusal(401, "You are signed out, so nothing was decided. What you typed is kept in this tab.");
  if (answer.status === 403) throw new Refusal(401, "You are not signed in as you were, so nothing was decided. What you typed is kept in this tab.");
  const json = (answer.headers.get("Content-Type") || "").includes("json");
  if (json) {
    const told = await answer.json();
    if (answer.ok) return told;
    throw new Refusal(answer.status, told.message, told.code);
  }
  const element = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("item");
  if (answer.ok && element) return document.adoptNode(element);
  throw new Refusal(answer.status, `The server answered ${answer.status}, so nothing was decided. Reload the page and try again.`);
}

function setBusy(on) {
  queue.busy = on;
  review().toggleAttribute("aria-busy", on);
  if (on) review().setAttribute("aria-busy", "true");
}

// One thing at a time; what goes wrong is shown on the item and leaves it as it is.
async function alone(work) {
  if (queue.busy) return;
  setBusy(true);
  try {
    hideProblem();
    await work();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    showProblem(error);
  } finally {
    setBusy(false);
  }
}

const decide = (form, submitter) => alone(async () => {
  const item = shown();
  const seconds = spent(item).toFixed(1);
  const body = () => { const data = new FormData(form, submitter); data.set("seconds", seconds); return data; };
  const said = submitter && submitter.dataset.digit ? "Rejected" : form.id === "edit" ? "Saved and approved" : "Decided";
  const claim = form.elements.claim.value;
  let answer;
  try {
    answer = await ask(form.action, { body: body() });
  } catch (error) {
    if (error.code === "filtered") htmx.trigger("#check", "check");
    if (error.code !== "conflict" || !await regained(item, claim)) throw error;
    answer = await ask(form.action, { body: body() });
  }
  letGo(item);
  tell(answer, `${said}: sample ${item.dataset.sample}.`);
  await advance();
});

const skip = (form) => alone(async () => {
  const item = shown();
  await queue.beating; // served after the skip, it would claim the item anew
  tell(await ask(form.action, { body: new FormData(form) }), `Skipped sample ${item.dataset.sample}.`);
  letGo(item);
  await advance();
});

const undo = (form) => alone(async () => {
  const answer = await ask(form.action, { body: new FormData(form) });
  tell(answer, `Taken back: sample ${answer.sample}.`);
  park();
  show(await fetchItem(answer.sample));
});

function letGo(item) {
  forgetDraft(item);
  delete item.dataset.item; // no longer held, though it is on the screen until the next one is there
}

// The item on the screen stays held while one looks at another.
function park() {
  if (shown().dataset.item) queue.ahead.unshift(shown());
}

async function advance() {
  if (!queue.ahead.length && queue.fetching) await queue.fetching;
  const next = queue.ahead.shift() || queue.behind.pop();
  try {
    show(next || await fetchNext());
  } catch (error) {
    shown().inert = true; // it is decided: only the next one is missing
    error.retry = true;
    throw error;
  }
}

const fetchNext = () => {
  const body = new FormData();
  for (const item of held()) body.append("besides", item.dataset.item);
  return ask(review().dataset.next, { body, fragment: true });
};
const fetchItem = (sample) => ask(review().dataset.sampleAt.replace("/0/", `/${sample}/`), { fragment: true });

function prefetch() {
  if (queue.fetching || queue.ahead.length || queue.behind.length || !shown().dataset.item) return;
  queue.fetching = fetchNext()
    .then((item) => { if (item.dataset.item && !held().some((other) => other.dataset.item === item.dataset.item)) queue.ahead.push(item); })
    .catch(() => {}) // asked again when it is needed, and told then
    .finally(() => { queue.fetching = null; });
}

function show(item) {
  spent(shown());
  shown().replaceWith(item);
  if (item.dataset.shows) history.replaceState(null, "", review().dataset.sampleAt.replace("/0/", `/${item.dataset.shows}/`));
  else history.replaceState(null, "", review().dataset.queue);
  window.scrollTo(0, 0);
  item.querySelector("h1, h2").focus({ preventScroll: true });
  queue.shownAt = queue.seenFrom = performance.now();
  afterShown(item);
}

function afterShown(item) {
  const crumb = document.querySelector("[data-crumb]");
  if (crumb) crumb.textContent = item.dataset.shows ? `Sample ${item.dataset.shows}` : "";
  hideProblem();
  htmx.process(item);
  tellLast();
  rememberedFollowUp(item);
  if (restoreDraft(item)) {
    setEditing(true);
    showProblem(new Refusal(200, "What you typed is here again; it is not saved yet."));
  }
  waitForMore(item);
  prefetch();
}

// Seconds an item has been on a screen somebody could see.
function spent(item) {
  const now = performance.now();
  const visible = document.visibilityState === "visible" && queue.seenFrom ? (now - queue.seenFrom) / 1000 : 0;
  item.dataset.spent = (Number(item.dataset.spent || 0) + visible).toString();
  queue.seenFrom = now;
  return Number(item.dataset.spent);
}

function tell(answer, words) {
  review().querySelector("[data-today]").textContent = answer.today.toLocaleString("en");
  review().querySelector("[data-left]").textContent = answer.left.toLocaleString("en");
  const badge = document.querySelector(`.nav a[href="${location.pathname.replace(/\d+\/$/, "")}"] .nav-count`);
  if (badge) badge.textContent = answer.left ? answer.left.toLocaleString("en") : "";
  queue.last = answer.last;
  document.getElementById("said").textContent = words;
}

// An item fetched ahead does not know what was decided since.
function tellLast() {
  const item = shown();
  if (queue.last === null || !item.dataset.item) return;
  const back = item.querySelector('[data-key="arrowleft"]');
  item.querySelector('[data-key="u"]').disabled = !queue.last;
  item.querySelector("[data-last]").textContent = queue.last ? `Last: ${queue.last.words}` : "";
  back.toggleAttribute("aria-disabled", !queue.last);
  if (queue.last) back.href = review().dataset.sampleAt.replace("/0/", `/${queue.last.sample}/`);
}

function showProblem(problem) {
  const box = document.getElementById("problem");
  box.textContent = problem.message;
  if (problem.status === 409) {
    const end = shown().dataset.item ? " S goes on with the next item." : "";
    box.textContent = `Nothing was changed. ${problem.message}${end}`;
  }
  if (problem.status === 401) link(box, "Sign in again", `/login/?next=${encodeURIComponent(location.pathname + location.search)}`);
  if (problem.retry) {
    const again = document.createElement("button");
    again.type = "button";
    again.className = "button small";
    again.textContent = "Fetch the next item";
    again.addEventListener("click", () => alone(advance));
    box.textContent = `Decided. The next item did not come: ${problem.message} `;
    box.append(again);
  }
  box.hidden = false;
  box.scrollIntoView({ block: "nearest" });
}

function link(box, words, href) {
  const anchor = document.createElement("a");
  anchor.href = href;
  anchor.textContent = words;
  box.append(" ", anchor);
}

const hideProblem = () => { document.getElementById("problem").hidden = true; };

// The lease: kept while somebody looks, given back when they leave.
function holding() {
  const body = new FormData();
  body.set("items", JSON.stringify(Object.fromEntries(held().map((item) => [item.dataset.item, item.dataset.claim]))));
  body.set("csrfmiddlewaretoken", csrfToken() || "");
  return body;
}

// A claim given back by another tab that closed: when nobody took the item it is claimed anew, and the decision sent.
async function regained(item, sent) {
  const answer = await ask(review().dataset.heartbeat, { body: holding() });
  const claim = answer.items[item.dataset.item];
  const anew = Boolean(claim) && claim !== sent;
  if (anew) renew(item, claim);
  if (!claim) item.dataset.lost = "";
  return anew;
}

function beat() {
  queue.beating = queue.beating.then(keep, keep);
  return queue.beating;
}

async function keep() {
  if (document.visibilityState !== "visible" || performance.now() - queue.touchedAt > IDLE_MS || !held().length) return;
  if (queue.busy) { setTimeout(beat, REPAIR_MS); return; } // what is being skipped is not to be kept
  let answer;
  try {
    answer = await ask(review().dataset.heartbeat, { body: holding() });
  } catch (error) {
    if (error.status === 401) showProblem(error);
    return;
  }
  for (const item of held()) {
    const claim = answer.items[item.dataset.item];
    if (claim === undefined) continue;
    if (claim) renew(item, claim);
    else if (item === shown()) lost(item);
    else for (const list of [queue.ahead, queue.behind]) if (list.includes(item)) list.splice(list.indexOf(item), 1);
  }
  prefetch();
}

function renew(item, claim) {
  item.dataset.claim = claim;
  delete item.dataset.lost;
  for (const field of item.querySelectorAll("[name=claim]")) field.value = claim;
}

function lost(item) {
  if (queue.busy || "lost" in item.dataset) return; // told already, and by whom it is held
  item.dataset.lost = "";
  showProblem(new Refusal(200, "Your time on this item has ended, and somebody else has it or has decided it. What you typed is still here. S goes on with the next item."));
}

// An empty queue asks again, when the oldest lease ends and every now and then, while somebody looks.
function waitForMore(item) {
  if (!item.dataset.poll) return;
  const frees = item.dataset.frees ? new Date(item.dataset.frees) - Date.now() + 1000 : Infinity;
  const pause = Math.max(3000, Math.min(frees, Number(item.dataset.poll) * 1000));
  setTimeout(async () => {
    if (shown() !== item) return;
    if (document.visibilityState !== "visible" || queue.busy || performance.now() - queue.touchedAt > IDLE_MS) return waitForMore(item);
    try {
      const next = await fetchNext();
      if (shown() !== item) return;
      if (next.dataset.item) { show(next); return; }
      item.replaceWith(next);
      htmx.process(next);
      waitForMore(next);
    } catch { waitForMore(item); }
  }, pause);
}

setInterval(beat, BEAT_MS);
setTimeout(beat, REPAIR_MS);
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") { queue.seenFrom = performance.now(); beat(); }
  else {
    const item = shown();
    if (queue.seenFrom) item.dataset.spent = (Number(item.dataset.spent || 0) + (performance.now() - queue.seenFrom) / 1000).toString();
    queue.seenFrom = 0;
  }
});
addEventListener("pageshow", (event) => { if (event.persisted) beat(); });
addEventListener("pagehide", () => { if (held().length) navigator.sendBeacon(review().dataset.release, holding()); });
