// The review queue's keys. Each button names its key in data-key; a key presses its button and nothing else.
// Keys rest while one types, while a dialog is open, while the next sample loads and just after it appeared.
const SETTLE_MS = 120;
let busy = false;
let shownAt = 0;

const review = () => document.getElementById("review");
const openDialog = () => document.querySelector("dialog[open]");
const editing = () => { const form = document.getElementById("edit"); return form && !form.hidden; };
const typing = (target) => target.closest("input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable]");

function setEditing(on) {
  document.querySelector('[data-view="read"]').hidden = on;
  document.querySelector('[data-view="bar"]').hidden = on;
  const form = document.getElementById("edit");
  form.hidden = !on;
  if (on) document.getElementById("edit-query").focus();
  else { form.reset(); document.querySelector("#review h1").focus(); }
}

function press(key) {
  const button = review().querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (!button || button.disabled || button.getAttribute("aria-disabled") || button.closest("[hidden]")) return false;
  button.click();
  return true;
}

document.addEventListener("click", (event) => {
  const dialog = event.target.closest("[data-dialog]");
  if (dialog) document.getElementById(dialog.dataset.dialog).showModal();
  if (event.target.closest("[data-close]")) openDialog().close();
  if (event.target.closest("[data-edit]")) setEditing(true);
  if (event.target.closest("[data-close-edit]")) setEditing(false);
});

document.addEventListener("keydown", (event) => {
  if (!review()) return;
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
    const form = event.target.closest("form") || (editing() && document.getElementById("edit"));
    if (form && form.querySelector("[data-submit]") && !busy) { event.preventDefault(); form.requestSubmit(); }
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || busy) return;
  if (openDialog()) return dialogKey(event);
  if (editing()) {
    if (event.key === "Escape") setEditing(false);
    return;
  }
  if (typing(event.target) || performance.now() - shownAt < SETTLE_MS) return;
  if (press(event.key.toLowerCase())) event.preventDefault();
});

function dialogKey(event) {
  if (typing(event.target) || !/^[1-9]$/.test(event.key)) return;
  const radio = openDialog().querySelector(`[data-digit="${event.key}"]`);
  if (radio) { event.preventDefault(); radio.checked = true; radio.focus(); }
}

// What replaces the whole item blocks the keys; the filter that reads along while one edits does not.
const replacesItem = (event) => event.detail.target && event.detail.target.id === "review";
document.addEventListener("htmx:beforeRequest", (event) => {
  if (!replacesItem(event)) return;
  if (busy) { event.preventDefault(); return; }
  busy = true;
  review().setAttribute("aria-busy", "true");
  if (openDialog()) openDialog().close();
});
// A refused decision (409 somebody was faster, 422 the filter refuses) is a page to read, not an error.
document.addEventListener("htmx:beforeSwap", (event) => {
  if ([409, 422].includes(event.detail.xhr.status) && replacesItem(event)) {
    event.detail.shouldSwap = true;
    event.detail.isError = false;
  }
});
document.addEventListener("htmx:afterRequest", (event) => {
  if (!replacesItem(event)) return;
  busy = false;
  if (review()) review().removeAttribute("aria-busy");
});
document.addEventListener("htmx:afterSettle", (event) => {
  if (!event.detail.target || event.detail.target.id !== "review") return;
  shownAt = performance.now();
  const head = document.querySelector("#review h1");
  if (head && !editing()) head.focus({ preventScroll: true });
});
