// The rule editor's fields: tools are found as one types, look-alikes come and go, rows follow each other, all from
// the keyboard. What changes sends an "input" event; saving and checking listen to that.
const form = document.getElementById("rule-form");
const SEARCH_MS = 150;
let searching = 0;
let focusAfterSwap = null;

const say = (element) => element.dispatchEvent(new Event("input", { bubbles: true }));
const target = () => document.getElementById("target").value.trim();
const setNames = () => [...document.getElementById("set-names").content.querySelectorAll("[data-value]")];

// Comboboxes: [data-combo] holds the address that answers with options, or "set" for the tools of the rule's set.
const comboOf = (input) => input.closest("[data-combo]");
const listOf = (input) => comboOf(input).querySelector("[role=listbox]");
const options = (input) => [...listOf(input).querySelectorAll("[role=option]")];
const isOpen = (input) => !listOf(input).hidden;

function typed(input) {
  const text = comboOf(input).dataset.comboMany === undefined ? input.value : input.value.slice(input.value.lastIndexOf(";") + 1);
  return text.trim();
}

async function search(input) {
  const source = comboOf(input).dataset.combo;
  const words = typed(input);
  if (source === "set") {
    const wanted = words.toLowerCase().split(/\s+/);
    const whole = setNames().some((option) => option.dataset.value === words);
    const found = setNames().filter((option) => whole || wanted.every((word) => option.dataset.value.toLowerCase().includes(word)));
    return fill(input, found.map((option) => option.cloneNode(true)), whole ? words : "");
  }
  if (!words) return close(input);
  const mine = ++searching;
  const answer = await fetch(`${source}?${new URLSearchParams({ q: words, target: target() })}`, { redirect: "manual" });
  if (mine !== searching || !answer.ok || document.activeElement !== input) return;
  const found = new DOMParser().parseFromString(await answer.text(), "text/html");
  fill(input, [...found.querySelectorAll("[role=option]")]);
}

function fill(input, found, chosen = "") {
  const list = listOf(input);
  found.forEach((option, place) => { option.id = `${list.id}-${place}`; });
  list.replaceChildren(...found);
  list.hidden = !found.length;
  input.setAttribute("aria-expanded", String(found.length > 0));
  activate(input, found.find((option) => option.dataset.value === chosen) ?? found[0]);
}

function close(input) {
  listOf(input).hidden = true;
  input.setAttribute("aria-expanded", "false");
  input.removeAttribute("aria-activedescendant");
}

function activate(input, option) {
  for (const other of options(input)) other.setAttribute("aria-selected", String(other === option));
  if (!option) return input.removeAttribute("aria-activedescendant");
  input.setAttribute("aria-activedescendant", option.id);
  option.scrollIntoView({ block: "nearest" });
}

const active = (input) => options(input).find((option) => option.getAttribute("aria-selected") === "true");

function choose(input, value) {
  close(input);
  searching += 1;
  const combo = comboOf(input);
  if (combo.dataset.comboAdds !== undefined) return addLookAlikes([value]);
  if (combo.dataset.comboMany !== undefined) {
    const before = input.value.slice(0, input.value.lastIndexOf(";") + 1);
    input.value = before ? `${before} ${value}` : value;
  } else input.value = value;
  say(input);
  input.dispatchEvent(new Event("change", { bubbles: true }));
}

let pause = 0;
form.addEventListener("input", (event) => {
  const input = event.target.closest("[role=combobox]");
  if (!input || !event.isTrusted) return;
  clearTimeout(pause);
  pause = setTimeout(() => search(input), comboOf(input).dataset.combo === "set" ? 0 : SEARCH_MS);
});
form.addEventListener("focusin", (event) => {
  const input = event.target.closest("[role=combobox]");
  if (input && comboOf(input).dataset.combo === "set") input.select();
});
form.addEventListener("focusout", (event) => { if (event.target.matches("[role=combobox]")) close(event.target); });
form.addEventListener("mousedown", (event) => { if (event.target.closest("[role=option]")) event.preventDefault(); });
form.addEventListener("click", (event) => {
  const option = event.target.closest("[role=option]");
  const input = option?.closest("[data-combo]")?.querySelector("[role=combobox]");
  if (input) choose(input, option.dataset.value);
  else if (event.target.matches("[role=combobox]") && comboOf(event.target).dataset.combo === "set") search(event.target);
});

// Without scripts the picker's text is a name to add; here it is one only when chosen.
const unname = () => document.getElementById("add-confusable").removeAttribute("name");
form.addEventListener("restored", unname);
unname();

// Look-alikes: checkboxes, as chips while chosen. A refresh redraws chips, suggestions and descriptions.
function refreshSet(focus) {
  focusAfterSwap = focus ?? null;
  window.htmx.trigger("#set", "refresh");
}

function addLookAlikes(names) {
  const input = document.getElementById("add-confusable");
  const chosen = new Set(new FormData(form).getAll("confusables"));
  for (const name of names.filter((one) => one && one !== target() && !chosen.has(one))) {
    const box = document.createElement("input");
    Object.assign(box, { type: "hidden", name: "confusables", value: name });
    document.getElementById("chips").append(box);
  }
  input.value = "";
  refreshSet();
  say(input);
}

function chipKey(event, box) {
  const boxes = [...document.querySelectorAll("#chips input[type=checkbox]")];
  const here = boxes.indexOf(box);
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step) (boxes[here + step] ?? (step > 0 ? document.getElementById("add-confusable") : box)).focus();
  else if (["Delete", "Backspace", "Enter"].includes(event.key)) box.click();
  else return;
  event.preventDefault();
}

form.addEventListener("change", (event) => {
  const box = event.target;
  if (box.id === "target") refreshSet();
  if (box.name !== "confusables") return;
  const selector = box.closest("#chips") ? "#chips input[type=checkbox]" : "#set .pick input";
  const place = [...document.querySelectorAll(selector)].indexOf(box);
  refreshSet(() => {
    const left = document.querySelectorAll(selector);
    (left[Math.min(place, left.length - 1)] ?? document.getElementById("add-confusable")).focus({ preventScroll: true });
  });
});
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.target.id === "set") event.detail.target.dataset.open = String(document.querySelector("#set details")?.open ?? false);
});
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target.id !== "set") return;
  const suggested = document.querySelector("#set details");
  if (suggested && event.detail.target.dataset.open === "true") suggested.open = true;
  if (focusAfterSwap) focusAfterSwap();
  focusAfterSwap = null;
});

// Rows of clauses and tests
function nextRow(row) {
  const list = row.parentElement;
  const rows = [...list.querySelectorAll(":scope > [data-row]")];
  const next = rows[rows.indexOf(row) + 1];
  if (next) return next.querySelector("textarea").focus();
  window.addRow(list);
  setDefaults(list);
}

function setDefaults(list) {
  const row = list.lastElementChild;
  const names = setNames().map((option) => option.dataset.value);
  if (list.id === "tests") { row.querySelector("[name$=-tools]").value = target(); return; }
  const routed = new Set([...list.querySelectorAll("[name$=-route_to]")].map((input) => input.value));
  const free = names.find((name) => !routed.has(name)) ?? target();
  row.querySelector("[name$=-route_to]").value = free;
  row.querySelector("[name$=-exception]").checked = free !== target();
}

document.addEventListener("click", (event) => {
  const adder = event.target.closest("[data-add-row]");
  if (adder) setDefaults(document.getElementById(adder.dataset.addRow)); // app.js, listening before us, has added it
});

// The cases that the preview read in the text become clauses, so that the expert can type how people ask for them
function typeExamples(cases) {
  const list = document.getElementById("clauses");
  const field = (row, name) => row.querySelector(`[name$=-${name}]`);
  const rows = cases.map((wanted) => {
    const same = (row) => ["when", "route_to"].every((name) => field(row, name).value === wanted[name]);
    const known = [...list.querySelectorAll("[data-row]")].find(same);
    if (known) return known;
    window.addRow(list);
    const row = list.lastElementChild;
    field(row, "when").value = wanted.when;
    field(row, "route_to").value = wanted.route_to;
    field(row, "exception").checked = wanted.exception;
    return row;
  });
  rows.forEach((row) => { field(row, "signals").placeholder = "as a colleague would type it; and once more in other words"; });
  field(rows[0], "signals").focus();
  say(list);
}

document.addEventListener("click", (event) => {
  const wants = event.target.closest("[data-wants]");
  if (wants) typeExamples(JSON.parse(document.getElementById(wants.dataset.wants).textContent));
});

form.addEventListener("keydown", (event) => {
  const input = event.target;
  if (input.matches("#chips input[type=checkbox]")) return chipKey(event, input);
  const combo = input.matches("[role=combobox]");
  if (combo && comboKey(event, input)) return event.preventDefault();
  if (event.key !== "Enter" || event.altKey || event.ctrlKey || event.metaKey || !input.matches("input, .grow")) return;
  event.preventDefault(); // Enter never submits the form
  const row = input.closest("[data-row]");
  if (row) nextRow(row);
});

function comboKey(event, input) {
  if (event.altKey || event.ctrlKey || event.metaKey) return false;
  const all = options(input);
  const here = all.indexOf(active(input));
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (!isOpen(input)) search(input);
    else activate(input, all.at((here + (event.key === "ArrowDown" ? 1 : -1) + all.length) % all.length));
    return true;
  }
  if (event.key === "Escape" && isOpen(input)) { close(input); return true; }
  if (event.key === "Enter" && isOpen(input) && active(input)) {
    const same = active(input).dataset.value === typed(input);
    choose(input, active(input).dataset.value);
    return !(same && input.closest("[data-row]"));
  }
  if (event.key === "Enter" && input.id === "add-confusable" && input.value.trim()) { addLookAlikes([input.value.trim()]); return true; }
  if (event.key === "Backspace" && input.id === "add-confusable" && !input.value) {
    [...document.querySelectorAll("#chips input[type=checkbox]")].at(-1)?.focus();
    return true;
  }
  return false;
}

// A table pasted from a spreadsheet becomes rows; a column of names becomes look-alikes.
form.addEventListener("paste", (event) => {
  const input = event.target;
  const text = event.clipboardData.getData("text/plain").trim();
  if (!/[\t\n]/.test(text)) return;
  const lines = text.split(/\r?\n/).map((line) => line.split("\t").map((cell) => cell.trim()));
  if (input.id === "add-confusable") { event.preventDefault(); return addLookAlikes(lines.flat()); }
  const row = input.closest("[data-row]");
  if (!row || !input.matches("[name$=-query], [name$=-when]")) return;
  event.preventDefault();
  const list = row.parentElement;
  lines.forEach((cells, place) => {
    if (place) { window.addRow(list); setDefaults(list); }
    const inputs = (place ? list.lastElementChild : row).querySelectorAll("textarea, input[type=text]");
    cells.slice(0, inputs.length).forEach((cell, column) => { if (cell || !column) inputs[column].value = cell; });
  });
  say(input);
});
