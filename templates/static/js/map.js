// The map page: camera, keys, search, panel. What is drawn and how lies in map-draw.js, the search in map-search.js.
const mapBox = document.getElementById("map");
if (mapBox) startMap(mapBox);

function startMap(box) {
  const canvas = document.getElementById("map-canvas");
  const stage = canvas.parentElement;
  const [tip, spoken, state, panel] = ["tip", "spoken", "state", "panel"].map((name) => document.getElementById(`map-${name}`));
  const keys = [...box.querySelectorAll("[data-state]")];
  const words = keys.map((key) => key.querySelector("span").textContent);
  const map = new ClusterMap(canvas, keys.map((key) => ({ ...key.dataset, sign: key.querySelector("path").getAttribute("d") })));
  box.clusterMap = map;
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let flight = 0;
  let waiting = 0;
  let asking = false;
  let found = null; // ids the search has found
  let only = -1; // the one state that is shown

  let moving = true;
  const frame = (moves = false) => {
    moving &&= moves;
    if (!waiting) waiting = requestAnimationFrame(() => { waiting = 0; map.draw(moving); moving = true; fetchTools(); });
  };
  const getJson = async (url) => {
    const answer = await fetch(url, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
    return answer.json();
  };

  // the tools of circles that are large enough, asked for together once the view rests a moment
  let rest;
  function fetchTools() {
    clearTimeout(rest);
    if (!map.wanted?.length || asking) return;
    rest = setTimeout(async () => {
      asking = true;
      const ids = map.wanted.slice(0, 80);
      try {
        const tools = await getJson(`${box.dataset.tools}?ids=${ids.join(",")}`);
        for (const id of ids) map.remember(id, tools[id] || { tools: [], edges: [] });
      } catch (error) { toast(`The tools could not be loaded. ${error.message}`, "bad"); return; } finally { asking = false; }
      frame();
    }, 80);
  }

  // camera
  const clamp = (k) => Math.max(map.smallest(), Math.min(40, k));
  function zoom(factor, px = map.width / 2, py = map.height / 2) {
    cancelAnimationFrame(flight);
    const { camera } = map;
    const k = clamp(camera.k * factor);
    camera.x += (px - map.width / 2) * (1 / camera.k - 1 / k);
    camera.y += (py - map.height / 2) * (1 / camera.k - 1 / k);
    camera.k = k;
    frame(true);
  }
  function pan(dx, dy) {
    cancelAnimationFrame(flight);
    map.camera.x -= dx / map.camera.k;
    map.camera.y -= dy / map.camera.k;
    frame(true);
  }
  function fly(to) {
    cancelAnimationFrame(flight);
    if (still.matches) { Object.assign(map.camera, to); return frame(); }
    const from = { ...map.camera };
    const began = performance.now();
    const step = (now) => {
      const t = Math.min(1, (now - began) / 450);
      const eased = t * t * (3 - 2 * t);
      const k = from.k * (to.k / from.k) ** eased;
      const way = Math.abs(to.k - from.k) < 1e-3 * from.k ? eased : (1 / from.k - 1 / k) / (1 / from.k - 1 / to.k);
      Object.assign(map.camera, { x: from.x + (to.x - from.x) * way, y: from.y + (to.y - from.y) * way, k });
      map.draw(t < 1);
      if (t < 1) flight = requestAnimationFrame(step);
      else fetchTools();
    };
    flight = requestAnimationFrame(step);
  }
  const flyTo = (place, size = Math.min(map.width, map.height) / 4) =>
    fly({ x: map.data.x[place], y: map.data.y[place], k: clamp(size / map.data.r[place]) });

  // what is lit: a state of the key and what was searched for
  function light() {
    const keep = (i) => (only < 0 || map.data.state[i] === only) && (!found || found.has(map.data.id[i]));
    map.lit = only < 0 && !found ? null : new Set([...Array(map.count).keys()].filter(keep));
    frame();
  }

  // hover, focus
  const sentence = (i) => {
    const { label, n, state: states, share } = map.data;
    return `${label[i]}: ${words[states[i]]}, ${n[i]} tools, ${share[i]} % of pairs told apart`;
  };
  function show(i) {
    map.hover = i;
    canvas.classList.toggle("is-over", i >= 0);
    tip.hidden = i < 0;
    if (i >= 0) {
      tip.textContent = sentence(i);
      const left = Math.max(4, Math.min(map.width - tip.offsetWidth - 4, map.sx[i] - tip.offsetWidth / 2));
      const above = map.sy[i] - map.radius(i) - tip.offsetHeight - 24;
      tip.style.transform = `translate(${left}px, ${above > 4 ? above : Math.min(map.height - tip.offsetHeight - 4, map.sy[i] + map.radius(i) + 22)}px)`;
    }
    frame();
  }
  function step(dx, dy) {
    const from = map.hover >= 0 ? map.hover : map.chosen;
    const x = from >= 0 ? map.data.x[from] : map.camera.x;
    const y = from >= 0 ? map.data.y[from] : map.camera.y;
    let best = -1;
    let least = Infinity;
    for (let i = 0; i < map.count; i++) {
      if (i === from || (map.lit && !map.lit.has(i))) continue;
      const along = (map.data.x[i] - x) * dx + (map.data.y[i] - y) * dy;
      const aside = Math.abs((map.data.x[i] - x) * dy) + Math.abs((map.data.y[i] - y) * dx);
      if ((from >= 0 && (along <= 0 || aside > along)) || Math.abs(along) + 2 * aside >= least) continue;
      least = Math.abs(along) + 2 * aside;
      best = i;
    }
    if (best < 0) return;
    const sx = (map.data.x[best] - map.camera.x) * map.camera.k;
    const sy = (map.data.y[best] - map.camera.y) * map.camera.k;
    if (Math.abs(sx) > 0.45 * map.width || Math.abs(sy) > 0.45 * map.height) Object.assign(map.camera, { x: map.data.x[best], y: map.data.y[best] });
    map.draw();
    show(best);
    spoken.textContent = sentence(best);
  }

  // the panel has an address of its own
  async function open(i, { push = true, focus = true } = {}) {
    map.chosen = i;
    frame();
    const id = map.data.id[i];
    if (push) history.pushState({ cluster: id }, "", address(id));
    try {
      const answer = await fetch(box.dataset.panel.replace("/0/", `/${id}/`));
      if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
      const text = await answer.text();
      if (map.data.id[map.chosen] !== id) return;
      panel.innerHTML = text;
    } catch (error) { return toast(`The cluster could not be loaded. ${error.message}`, "bad"); }
    panel.hidden = false;
    box.classList.add("has-panel");
    if (focus) document.getElementById("panel-title").focus({ preventScroll: true });
    panel.querySelector("[data-map-top]").scrollIntoView({ block: "nearest" });
  }
  function close({ push = true } = {}) {
    map.chosen = -1;
    panel.hidden = true;
    box.classList.remove("has-panel");
    if (push) { history.pushState({}, "", address()); canvas.focus(); }
    frame();
  }
  function address(id) {
    const url = new URL(location.href);
    if (id) url.searchParams.set("cluster", id);
    else url.searchParams.delete("cluster");
    return url;
  }
  const addressed = () => map.place.get(Number(new URL(location.href).searchParams.get("cluster")));
  function follow() {
    const place = addressed();
    if (place === undefined) close({ push: false });
    else open(place, { push: false, focus: false });
  }
  addEventListener("popstate", () => { if (map.place) follow(); }); // else the address is read when the data have come

  // pointers: one moves, two pinch; a press that does not move chooses
  const down = new Map();
  let moved = 0;
  const local = (event) => { const at = canvas.getBoundingClientRect(); return [event.clientX - at.left, event.clientY - at.top]; };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, local(event));
    if (down.size === 1) moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const [px, py] = local(event);
    const last = down.get(event.pointerId);
    if (!last) { if (event.pointerType === "mouse" && map.count) { const i = map.at(px, py); if (i !== map.hover) show(i); } return; }
    moved += Math.abs(px - last[0]) + Math.abs(py - last[1]);
    if (down.size === 2) {
      const [other] = [...down].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const before = Math.hypot(last[0] - other[0], last[1] - other[1]);
      if (before > 4) zoom(Math.hypot(px - other[0], py - other[1]) / before, (px + other[0]) / 2, (py + other[1]) / 2);
      pan((px - last[0]) / 2, (py - last[1]) / 2);
    } else if (down.size === 1) { pan(px - last[0], py - last[1]); if (moved > 6) tip.hidden = true; }
    down.set(event.pointerId, [px, py]);
  });
  const up = (event) => {
    const alone = down.size === 1;
    if (!down.delete(event.pointerId) || event.type === "pointercancel" || !alone || moved > 8 || !map.count) return;
    const i = map.at(...local(event), event.pointerType === "touch" ? 14 : 4);
    if (i >= 0) open(i, { focus: false });
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => show(-1));
  canvas.addEventListener("blur", () => show(-1));
  canvas.addEventListener("dblclick", (event) => zoom(2.5, ...local(event)));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : event.ctrlKey ? 0.01 : 0.002)), ...local(event));
  }, { passive: false });
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !map.count) return;
    const arrow = arrows[event.key];
    if (arrow) { if (event.shiftKey) pan(-80 * arrow[0], -80 * arrow[1]); else step(...arrow); }
    else if (event.key === "+" || event.key === "=") zoom(1.4);
    else if (event.key === "-") zoom(1 / 1.4);
    else if (event.key === "0") fly(map.fitted());
    else if (event.key === "Enter" && map.hover >= 0) open(map.hover);
    else if (event.key === "Escape" && map.chosen >= 0) close();
    else return;
    event.preventDefault();
  });
  panel.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  box.addEventListener("click", (event) => {
    const act = event.target.closest("[data-map]")?.dataset.map;
    if (act === "in") zoom(1.6);
    else if (act === "out") zoom(1 / 1.6);
    else if (act === "fit" && map.count) fly(map.fitted());
    else if (act === "close") close();
    const key = event.target.closest("[data-state]");
    if (!key || !map.count) return;
    only = only === keys.indexOf(key) ? -1 : keys.indexOf(key);
    keys.forEach((other, i) => other.setAttribute("aria-pressed", String(i === only)));
    light();
  });
  mapSearch(box, getJson, {
    lit(ids) { found = ids && new Set(ids); if (map.count) light(); },
    chosen(cluster, tool) {
      const place = map.place?.get(cluster);
      if (place === undefined) return;
      map.tool = tool;
      const detail = map.details.get(cluster);
      if (detail) map.remember(cluster, detail);
      flyTo(place);
      open(place, { focus: false });
    },
  });

  // size, colours, data
  new ResizeObserver(() => {
    const fresh = !map.width;
    map.resize(stage.clientWidth, stage.clientHeight);
    if (map.count && fresh) Object.assign(map.camera, map.fitted());
    if (map.count) map.draw();
  }).observe(stage);
  const recolour = () => { map.readColours(); frame(); };
  new MutationObserver(recolour).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  map.resize(stage.clientWidth, stage.clientHeight);
  getJson(box.dataset.clusters).then((columns) => {
    map.load(columns);
    state.hidden = true;
    Object.assign(map.camera, map.fitted());
    const place = addressed();
    if (place !== map.place.get(Number(box.dataset.chosen))) follow();
    else if (place !== undefined) map.chosen = place;
    if (place !== undefined) flyTo(place);
    light();
  }).catch((error) => { state.textContent = `The map could not be loaded. ${error.message} Reload the page, or use the list.`; });
}
