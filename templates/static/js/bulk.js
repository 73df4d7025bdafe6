// Bulk approval: rows that open with Enter, ticks with Space, claims kept while the page is looked at.
const KEEP_MS = 60_000;
const place = () => document.querySelector("[data-bulk]");
const rows = () => [...document.querySelectorAll(".bulk-row")];
const tick = (row) => row.querySelector("input[name=token]");

function count() {
  const ticked = document.querySelectorAll(".bulk-row input[name=token]:checked").length;
  const button = document.querySelector("[data-approve]");
  if (!button) return;
  button.disabled = ticked === 0;
  button.querySelector("[data-ticked]").textContent = ticked;
  for (const row of rows()) row.classList.toggle("is-ticked", Boolean(tick(row)?.checked));
}

// A row is fetched when it is opened, again if that failed.
document.addEventListener("toggle", (event) => {
  const row = event.target.closest?.(".bulk-row");
  if (!row || !row.open || row.querySelector("[data-loaded]")) return;
  htmx.ajax("GET", row.dataset.open, { target: row.querySelector(".bulk-body"), swap: "innerHTML" });
}, true);

document.addEventListener("change", (event) => { if (event.target.name === "token") count(); });
document.addEventListener("htmx:afterSettle", count);

document.addEventListener("keydown", (event) => {
  const row = event.target.closest?.(".bulk-row");
  if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    rows()[rows().indexOf(row) + step]?.querySelector("summary").focus();
  } else if (event.key === " " && event.target.matches("summary") && row.open && tick(row)) {
    event.preventDefault();
    tick(row).checked = !tick(row).checked;
    count();
  }
});

function told() {
  const body = new FormData();
  body.set("rule", place().dataset.rule);
  body.set("csrfmiddlewaretoken", place().querySelector("[name=csrfmiddlewaretoken]").value);
  return body;
}

setInterval(() => {
  if (document.visibilityState === "visible" && rows().length) fetch(place().dataset.keep, { method: "POST", body: told() });
}, KEEP_MS);
addEventListener("pagehide", () => { if (rows().length) navigator.sendBeacon(place().dataset.release, told()); });
