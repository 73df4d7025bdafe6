// The review queue's keys. Each button names its key in data-key; a key presses its button and nothing else.
// Keys rest while one types, while a dialog is open, while the next item loads and just after it appeared.
const SETTLE_MS = 120;
const FOLLOW_UP = "trace-review-follow-up";

const openDialog = () => document.querySelector("dialog[open]");
const editing = () => { const form = document.getElementById("edit"); return form && !form.hidden; };
const typing = (target) => target.closest("input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable]");

function setEditing(on) {
  for (const name of ["read", "bar"]) shown().querySelector(`[data-view="${name}"]`).hidden = on;
  const form = document.getElementById("edit");
  form.hidden = !on;
  if (on) document.getElementById("edit-query").focus();
  else {
    form.reset();
    forgetDraft(shown());
    hideProblem();
    shown().querySelector("h1").focus();
  }
}

function press(key) {
  const button = shown().querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (!button || button.disabled || button.getAttribute("aria-disabled") !== null || button.closest("[hidden], [inert]")) return false;
  button.click();
  return true;
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.closest("#item")) return;
  const { decide: decides, skip: skips, undo: undoes } = form.dataset;
  if (decides === undefined && skips === undefined && undoes === undefined) return;
  event.preventDefault();
  if (decides !== undefined) submitDecision(form, event.submitter);
  else if (skips !== undefined) skip(form);
  else undo(form);
});

function submitDecision(form, button) {
  const dialog = openDialog();
  const note = form.elements.note;
  if (button && button.value === "other" && note && note.tagName === "TEXTAREA" && !note.value.trim()) {
    form.dataset.reason = "other";
    note.placeholder = "What is wrong? Ctrl Enter rejects.";
    note.focus();
    return;
  }
  decide(form, button);
  if (dialog) dialog.close();
}

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-dialog]");
  if (opener && !queue.busy) document.getElementById(opener.dataset.dialog).showModal();
  if (event.target.closest("[data-close]")) openDialog().close();
  if (event.target.closest("[data-edit]") && !queue.busy) setEditing(true);
  if (event.target.closest("[data-close-edit]")) setEditing(false);
  const filler = event.target.closest("[data-fill]");
  if (filler) editFrom(filler.closest("form"));
  const mover = event.target.closest('[data-key="arrowleft"], [data-key="arrowright"]');
  if (mover && mover.closest("#item")) {
    event.preventDefault();
    if (mover.getAttribute("aria-disabled") === null) move(mover);
  }
});

// Left: what one has decided before. Right: forward through it, and on to what one holds.
const move = (mover) => alone(async () => {
  const right = mover.dataset.key === "arrowright";
  if (right && mover.dataset.live === undefined || !right && !queue.behind.length) {
    const item = await ask(mover.href, { fragment: true });
    park();
    return show(item);
  }
  if (!right) { queue.ahead.unshift(shown()); return show(queue.behind.pop()); }
  if (!shown().dataset.item) return advance();
  if (!queue.ahead.length && queue.fetching) await queue.fetching;
  if (!queue.ahead.length) { document.getElementById("said").textContent = "Nothing further is yours: decide or skip this one."; return; }
  queue.behind.push(shown());
  show(queue.ahead.shift());
});

function editFrom(side) {
  fillEdit(shown(), {
    query: side.elements.query.value,
    trace: side.elements.trace.value,
    answer: [...side.querySelectorAll("[name=answer]")].map((field) => field.value),
  });
  setEditing(true);
  htmx.trigger("#check", "check");
}

document.addEventListener("input", (event) => {
  if (event.target.closest("#edit, #reject-note")) keepDraft(shown());
});

document.addEventListener("change", (event) => {
  if (event.target.name === "follow_up") localStorage.setItem(FOLLOW_UP, event.target.value);
  const filters = event.target.closest("[data-review-filters]");
  if (filters) filters.requestSubmit();
});

function rememberedFollowUp(item) {
  const choice = item.querySelector(`[name=follow_up][value="${localStorage.getItem(FOLLOW_UP) === "drop" ? "drop" : "regenerate"}"]`);
  if (choice && choice.type === "radio") choice.checked = true;
}

document.addEventListener("keydown", (event) => {
  queue.touchedAt = performance.now();
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter" && !event.repeat) return submitKey(event);
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || queue.busy) return;
  if (openDialog()) return dialogKey(event);
  if (editing()) {
    if (event.key === "Escape") setEditing(false);
    return;
  }
  if (typing(event.target) || performance.now() - queue.shownAt < SETTLE_MS) return;
  if (press(event.key.toLowerCase())) event.preventDefault();
});
document.addEventListener("pointerdown", () => { queue.touchedAt = performance.now(); });

// Submits the edit, or the rejection whose reason is chosen and whose note is typed.
function submitKey(event) {
  if (queue.busy) return;
  const reject = document.getElementById("reject");
  if (reject && reject.open) {
    const form = reject.querySelector("form");
    const button = form.querySelector(`[value="${form.dataset.reason || ""}"]`);
    if (button) form.requestSubmit(button);
  } else if (editing() && !openDialog()) document.getElementById("edit").requestSubmit();
  else return;
  event.preventDefault();
}

function dialogKey(event) {
  const dialog = openDialog();
  if (dialog.id !== "reject") return;
  const note = dialog.querySelector("#reject-note");
  if (event.target === note) {
    if (event.key !== "Escape") return;
    event.preventDefault(); // back from the note to the reasons, not out of the dialog
    dialog.querySelector("h2").focus();
    return;
  }
  const key = event.key.toLowerCase();
  const reason = /^[1-9]$/.test(key) && dialog.querySelector(`[data-digit="${key}"]`);
  if (reason) reason.click();
  else if (key === "n") note.focus();
  else if (key === "d") {
    const other = dialog.querySelector("[name=follow_up]:not(:checked)");
    other.click();
  } else return;
  event.preventDefault();
}

queue.seenFrom = performance.now();
afterShown(shown());
if (!editing()) shown().querySelector("h1, h2").focus({ preventScroll: true });
