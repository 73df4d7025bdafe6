// The rule's text: where the checks mark it, "@" to name a tool of the set, and clauses kept in step with it.
const form = document.getElementById("rule-form");
const text = () => document.getElementById("text");
const back = () => document.querySelector(".marked-back");
const names = () => document.getElementById("names-list");
const say = (element) => element.dispatchEvent(new Event("input", { bubbles: true }));
const codePoints = (value, places) => places.map((place) => [...value].slice(0, place).join("").length);

// Marks behind the text, redrawn with every answer of the checks
function draw(marks) {
  const value = text().value;
  const pieces = [];
  let at = 0;
  for (const { start, end, level } of marks.sort((a, b) => a.start - b.start)) {
    if (start < at) continue;
    const mark = document.createElement("mark");
    mark.className = `mark-${level}`;
    mark.textContent = value.slice(start, end);
    pieces.push(value.slice(at, start), mark);
    at = end;
  }
  back().replaceChildren(...pieces, `${value.slice(at)}\n`);
  back().scrollTop = text().scrollTop;
}

function showChecks() {
  for (const note of form.querySelectorAll("[data-note-of]")) note.replaceChildren();
  for (const marked of form.querySelectorAll(".has-error, .has-warning")) marked.classList.remove("has-error", "has-warning");
  const marks = [];
  for (const finding of document.querySelectorAll("#findings .finding[data-field]")) {
    const note = form.querySelector(`[data-note-of="${finding.dataset.field}"]`);
    if (!note) continue;
    const level = finding.dataset.level ?? "wait";
    if (level !== "wait") note.closest(".form-row, .field, .card")?.classList.add(`has-${level}`);
    const words = document.createElement("p");
    words.className = "told";
    words.append(finding.querySelector(".chip").cloneNode(true), ` ${finding.querySelector("p").textContent}`);
    note.append(words);
    if (finding.dataset.field === "text" && finding.dataset.start) {
      const [start, end] = codePoints(text().value, [Number(finding.dataset.start), Number(finding.dataset.end)]);
      marks.push({ start, end, level });
    }
  }
  for (const note of document.querySelectorAll("#live-notes > [data-note-for]")) {
    form.querySelector(`[data-note-of="${note.dataset.noteFor}"]`)?.append(note);
  }
  draw(marks);
}

function goTo(name) {
  const where = { set: "#add-confusable" }[name] ?? `#${name}, [data-row="${name}"] textarea`;
  const field = form.querySelector(where);
  if (!field) return;
  field.focus();
  const finding = document.querySelector(`#findings .finding[data-field="${name}"][data-start]`);
  if (name === "text" && finding) {
    field.setSelectionRange(...codePoints(field.value, [Number(finding.dataset.start), Number(finding.dataset.end)]));
  }
}

// Writing into the text keeps the browser's own undo
function replace(start, end, words) {
  const area = text();
  area.focus({ preventScroll: true });
  area.setSelectionRange(start, end);
  if (!document.execCommand("insertText", false, words)) {
    area.setRangeText(words, start, end, "end");
    say(area);
  }
}

async function fix(fields) {
  const body = new FormData(form);
  for (const [name, value] of Object.entries(fields)) body.set(name, value);
  const answer = await fetch(form.dataset.fix, { method: "POST", body });
  return answer.ok && !answer.redirected ? answer.json() : {};
}

async function writeIntoText(row) {
  const before = document.activeElement;
  const { edit } = await fix({ say: row });
  if (!edit) return;
  const [start, end] = codePoints(text().value, [edit[0], edit[1]]);
  replace(start, end, edit[2]);
  before.closest?.("[data-row]")?.querySelector("textarea").focus({ preventScroll: true });
}

async function followText() {
  const { clauses = [] } = await fix({});
  const list = document.getElementById("clauses");
  const focused = document.activeElement;
  for (const clause of clauses) {
    if (clause.row === null) window.addRow(list);
    const row = clause.row === null ? list.lastElementChild : list.querySelector(`[data-row="clause-${clause.row}"]`);
    row.querySelector("[name$=-when]").value = clause.when;
    row.querySelector("[name$=-route_to]").value = clause.route_to;
    row.querySelector("[name$=-exception]").checked = clause.exception;
  }
  if (form.contains(focused) && focused.isConnected && focused !== document.body) focused.focus({ preventScroll: true });
  if (clauses.length) say(list);
}

form.addEventListener("click", (event) => {
  const saying = event.target.closest("[data-say]");
  if (saying) writeIntoText(saying.dataset.say);
  if (event.target.closest("[data-follow]")) followText();
});
document.addEventListener("click", (event) => {
  const go = event.target.closest("[data-go]");
  if (go) goTo(go.dataset.go);
});
form.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !event.altKey || event.repeat) return;
  event.preventDefault();
  const row = event.target.closest("[data-row]");
  const button = row?.querySelector("[data-follow], [data-say]");
  if (button) button.click();
  else followText();
});

// "@" in the text offers the tools of the set
function mention() {
  const area = text();
  const before = area.value.slice(0, area.selectionStart);
  const found = /(?:^|\s|[(])@([^\s@]{0,80})$/.exec(before);
  return found && area.selectionStart === area.selectionEnd ? found[1] : null;
}

function offerNames() {
  const wanted = mention();
  const all = wanted === null ? [] : [...document.getElementById("set-names").content.querySelectorAll("[data-value]")];
  const found = all.filter((option) => option.dataset.value.toLowerCase().includes(wanted.toLowerCase()));
  names().replaceChildren(...found.map((option, place) => Object.assign(option.cloneNode(true), { id: `names-list-${place}` })));
  names().hidden = !found.length;
  if (!found.length) return text().removeAttribute("aria-activedescendant");
  activate(0);
  draw([]);
  placeList();
}

function placeList() {
  const area = text();
  const probe = document.createElement("span");
  back().replaceChildren(area.value.slice(0, area.selectionStart), probe, "\n");
  const top = probe.offsetTop + probe.offsetHeight - area.scrollTop;
  names().style.top = `${Math.min(Math.max(top, 0), area.offsetHeight)}px`;
  draw([]);
}

function activate(place) {
  const all = [...names().children];
  const here = (place + all.length) % all.length;
  all.forEach((option, number) => option.setAttribute("aria-selected", String(number === here)));
  all[here].scrollIntoView({ block: "nearest" });
  text().setAttribute("aria-activedescendant", all[here].id);
}

function insertName(option) {
  const area = text();
  const start = area.selectionStart - mention().length - 1;
  names().hidden = true;
  replace(start, area.selectionStart, option.dataset.value);
}

form.addEventListener("input", (event) => { if (event.target.id === "text") { draw([]); offerNames(); } });
form.addEventListener("scroll", (event) => { if (event.target.id === "text") back().scrollTop = event.target.scrollTop; }, true);
form.addEventListener("focusout", (event) => { if (event.target.id === "text") names().hidden = true; });
form.addEventListener("click", (event) => {
  const option = event.target.closest("#names-list [role=option]");
  if (option) insertName(option);
});
form.addEventListener("keydown", (event) => {
  if (event.target.id !== "text" || names().hidden || event.altKey || event.ctrlKey || event.metaKey) return;
  const all = [...names().children];
  const here = all.findIndex((option) => option.getAttribute("aria-selected") === "true");
  if (event.key === "ArrowDown") activate(here + 1);
  else if (event.key === "ArrowUp") activate(here - 1);
  else if (event.key === "Enter" || event.key === "Tab") insertName(all[here]);
  else if (event.key === "Escape") names().hidden = true;
  else return;
  event.preventDefault();
});

document.addEventListener("htmx:afterSettle", (event) => { if (event.detail.target.id === "findings") showChecks(); });
form.addEventListener("restored", () => draw([]));
draw([]);
