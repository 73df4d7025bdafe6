// A box that lists what is found: typing lights it up on the map, choosing flies there.
function mapSearch(box, getJson, on) {
  const input = document.getElementById("map-q");
  const list = document.getElementById("map-results");
  let timer;
  let asked = 0;
  let here = -1;

  const options = () => [...list.children].filter((row) => row.role === "option");
  function move(to) {
    const rows = options();
    here = rows.length ? (to + rows.length) % rows.length : -1;
    rows.forEach((row, i) => row.setAttribute("aria-selected", String(i === here)));
    input.setAttribute("aria-activedescendant", here < 0 ? "" : rows[here].id);
    if (here >= 0) rows[here].scrollIntoView({ block: "nearest" });
  }
  function expand(on_) { list.hidden = !on_; input.setAttribute("aria-expanded", String(on_)); if (!on_) move(-1); }
  function row(text, more, cluster, tool = 0) {
    const item = document.createElement("li");
    item.role = "option";
    item.id = `map-found-${list.children.length}`;
    Object.assign(item.dataset, { cluster, tool });
    const [name, rest] = [document.createElement("span"), document.createElement("span")];
    name.textContent = text;
    name.className = tool ? "mono" : "strong";
    rest.textContent = more;
    rest.className = "small muted";
    item.append(name, " ", rest);
    list.append(item);
  }
  async function ask() {
    const text = input.value.trim();
    const turn = ++asked;
    if (!text) { on.lit(null); return expand(false); }
    let answer;
    try { answer = await getJson(`${box.dataset.search}?q=${encodeURIComponent(text)}`); } catch (error) { return toast(`The search failed. ${error.message}`, "bad"); }
    if (turn !== asked) return;
    on.lit(answer.ids);
    list.replaceChildren();
    for (const { cluster, label, tools } of answer.results) {
      if (!tools.length) row(label, "cluster", cluster);
      for (const tool of tools) row(tool.name, `in ${label}`, cluster, tool.id);
    }
    if (!answer.results.length) {
      const none = document.createElement("li");
      none.textContent = "Nothing here has all these words.";
      none.className = "muted";
      list.append(none);
    }
    expand(true);
  }
  function choose(item) {
    expand(false);
    on.chosen(Number(item.dataset.cluster), Number(item.dataset.tool));
  }
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, 150); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") move(here + 1);
    else if (event.key === "ArrowUp") move(here - 1);
    else if (event.key === "Enter" && options().length) choose(options()[Math.max(0, here)]);
    else if (event.key === "Escape" && !list.hidden) expand(false);
    else return;
    event.preventDefault();
  });
  list.addEventListener("pointerdown", (event) => event.preventDefault()); // the box keeps the focus
  list.addEventListener("click", (event) => { const item = event.target.closest("[role=option]"); if (item) choose(item); });
  input.addEventListener("blur", () => expand(false));
}
