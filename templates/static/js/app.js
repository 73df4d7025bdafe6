// The few behaviours that HTML has not: theme switch, menu, sortable tables, toasts, row formsets, key help.
const root = document.documentElement;

function currentTheme() {
  return root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function showTheme() {
  const button = document.querySelector("[data-theme-switch]");
  if (button) button.setAttribute("aria-label", `Theme: ${currentTheme()}. Switch to ${currentTheme() === "dark" ? "light" : "dark"}`);
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-theme-switch]")) {
    root.dataset.theme = currentTheme() === "dark" ? "light" : "dark";
    localStorage.setItem("trace-theme", root.dataset.theme);
    showTheme();
  }
  if (event.target.closest("[data-menu]")) toggleMenu();
  else if (document.body.classList.contains("menu-open") && !event.target.closest(".nav")) toggleMenu(false);
  const dismiss = event.target.closest("[data-dismiss]");
  if (dismiss) dismiss.closest(".toast").remove();
  const sorter = event.target.closest("th button[data-sort]");
  if (sorter) sortBy(sorter.closest("th"));
  const adder = event.target.closest("[data-add-row]");
  if (adder) addRow(document.getElementById(adder.dataset.addRow));
  const remover = event.target.closest("[data-remove-row]");
  if (remover) removeRow(remover);
  const copier = event.target.closest("[data-copy]");
  if (copier) copy(copier);
});
// what went well has been read once one goes on, and on a telephone it may lie on the next button
document.addEventListener("input", () => document.querySelectorAll("#toasts .tone-good").forEach((box) => box.remove()));

function toggleMenu(open = !document.body.classList.contains("menu-open")) {
  document.body.classList.toggle("menu-open", open);
  const button = document.querySelector("[data-menu]");
  button.setAttribute("aria-expanded", String(open));
  if (open) document.querySelector(".nav a").focus();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "Escape" && document.body.classList.contains("menu-open")) {
    toggleMenu(false);
    document.querySelector("[data-menu]").focus();
  }
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const search = document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  }
});

// Sorting a whole table in the page: cells may carry data-value, numbers sort as numbers.
function sortBy(header) {
  const table = header.closest("table");
  const column = [...header.parentElement.children].indexOf(header);
  const down = header.getAttribute("aria-sort") === "ascending";
  for (const other of header.parentElement.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = (row) => row.children[column].dataset.value ?? row.children[column].textContent.trim();
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => value(a).localeCompare(value(b), "en", { numeric: true }) * (down ? -1 : 1));
  table.tBodies[0].append(...rows);
}

// Rows of a form: a <template> with __n__ in its names, a list that receives copies.
function addRow(list) {
  const next = Number(list.dataset.next);
  const template = document.getElementById(`${list.id}-template`);
  const holder = document.createElement("template");
  holder.innerHTML = template.innerHTML.replaceAll("__n__", next);
  list.append(holder.content);
  list.dataset.next = next + 1;
  htmx.process(list);
  list.lastElementChild.querySelector("input, textarea, select").focus();
}

function removeRow(button) {
  const list = button.closest("[data-next]");
  button.closest("[data-row]").remove();
  list.dispatchEvent(new Event("change", { bubbles: true }));
}

function copy(button) {
  navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent).then(() => toast("Copied."));
}

function toast(text, tone = "good") {
  const box = document.createElement("div");
  box.className = `toast tone-${tone}`;
  box.setAttribute("role", tone === "bad" ? "alert" : "status");
  const words = document.createElement("span");
  words.textContent = text;
  const close = document.createElement("button");
  close.type = "button";
  close.dataset.dismiss = "";
  close.className = "toast-close";
  close.setAttribute("aria-label", "Dismiss");
  close.textContent = "×";
  box.append(words, close);
  document.getElementById("toasts").append(box);
}

// A refused fragment: show the server's own sentence.
document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.xhr.status === 401) return signedOut();
  const page = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html");
  const told = page.querySelector("[data-error-text]");
  toast(told ? told.textContent.trim() : `The server answered ${event.detail.xhr.status}. Reload the page and try again.`, "bad");
});
document.addEventListener("htmx:sendError", () => toast("The server cannot be reached. What you typed is still here.", "bad"));

// Whether a field holds something else than the server sent.
const typed = (field) => field.type === "checkbox" || field.type === "radio" ? field.checked !== field.defaultChecked
  : field.options ? [...field.options].some((option, at) => option.selected !== option.defaultSelected && !(at === 0 && option.selected))
  : field.value !== field.defaultValue && field.type !== "hidden";

// A session that ended must not take with it what was typed: leave only pages on which nothing was.
function signedOut() {
  const login = `/login/?next=${encodeURIComponent(location.pathname + location.search)}`;
  if (![...document.querySelectorAll("main form input, main form textarea, main form select")].some(typed)) location.assign(login);
  else if (!document.getElementById("signed-out")) {
    toast("You are signed out, so nothing was saved. What you typed is still here: sign in in another tab, then send it again.", "bad");
    const link = document.createElement("a");
    link.id = "signed-out";
    link.href = login;
    link.target = "_blank";
    link.textContent = "Sign in";
    document.getElementById("toasts").lastElementChild.querySelector("span").append(" ", link);
  }
}

// Signing in elsewhere changes the CSRF token: send the one that holds now, not the one of the page.
const csrfToken = () => document.cookie.split("; ").find((part) => part.startsWith("csrftoken="))?.slice(10);
document.addEventListener("htmx:configRequest", (event) => {
  if (csrfToken()) event.detail.headers["X-CSRFToken"] = csrfToken();
});
document.addEventListener("submit", (event) => {
  const field = event.target.querySelector("[name=csrfmiddlewaretoken]");
  if (field && csrfToken()) field.value = csrfToken();
}, true);

showTheme();

// A filter that needs no button.
document.addEventListener("change", (event) => {
  if (event.target.closest("[data-submit]")) event.target.form.requestSubmit();
});

// A picker whose choice has moved into its list starts empty again; what was waited for is no longer busy.
document.addEventListener("htmx:afterSwap", (event) => {
  const target = event.detail.target ?? event.target; // what a server-sent event brings names none
  for (const input of document.querySelectorAll(`[data-clear-after="${target.id}"]`)) input.value = "";
  if (target.matches(".answer-slot")) target.removeAttribute("aria-busy");
});

// The bell: how many notices are unread, asked once a minute while somebody looks.
const bell = document.querySelector("[data-unread]");

async function ring() {
  if (document.hidden) return;
  const answer = await fetch(bell.dataset.unread, { headers: { "HX-Request": "true" } }).catch(() => null);
  if (!answer?.ok) return;
  const unread = Number(await answer.text());
  const mark = bell.querySelector(".bell-count");
  mark.hidden = !unread;
  mark.textContent = unread > 99 ? "99+" : unread;
  bell.setAttribute("aria-label", unread ? `Notices: ${unread} unread` : "Notices");
}
if (bell) {
  ring();
  setInterval(ring, 60000);
  document.addEventListener("visibilitychange", ring);
}
