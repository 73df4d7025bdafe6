// Draws clusters on a canvas: circles far away, tools and their pairs near by, labels that never lie on each other.
// It knows no events and no network: map.js moves the camera, hands in data, and asks for a new frame.
// States come from the key beside the map: its signs (paths in a box from -6 to 6) and tones are those drawn here.
const OPEN_AT = 30; // screen radius from which a circle shows its tools
const SIGN_AT = 6;
const MOST_LABELS = 90;
const TURN = 2 * Math.PI;
const SOFT = { taught: "good", idle: "wait" }; // tones that borrow another's light shade
const INK = { taught: "good", idle: "muted" };

class ClusterMap {
  constructor(canvas, states) {
    this.states = states; // [{state, tone, sign}]
    this.canvas = canvas;
    this.pen = canvas.getContext("2d", { alpha: false });
    this.camera = { x: 0, y: 0, k: 1 };
    this.details = new Map(); // cluster id -> {tools, edges, at}
    this.widths = new Map();
    this.signs = states.map(({ sign }) => new Path2D(sign));
    this.lit = null; // null: all of them; else a Set of places
    this.hover = this.chosen = -1;
    this.tool = 0; // id of the tool that was searched for
    this.count = 0;
    this.readColours();
  }

  load(columns) {
    this.data = columns;
    this.count = columns.id.length;
    this.place = new Map(columns.id.map((id, place) => [id, place]));
    this.sx = new Float32Array(this.count);
    this.sy = new Float32Array(this.count);
    this.seen = new Int32Array(this.count);
    const { x, y, r } = columns;
    this.box = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
    for (let i = 0; i < this.count; i++) {
      this.box.left = Math.min(this.box.left, x[i] - r[i]);
      this.box.right = Math.max(this.box.right, x[i] + r[i]);
      this.box.top = Math.min(this.box.top, y[i] - r[i]);
      this.box.bottom = Math.max(this.box.bottom, y[i] + r[i]);
    }
  }

  readColours() {
    const probe = document.createElement("span");
    document.body.append(probe);
    const read = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
    this.colours = {
      back: read("raised"), text: read("text"), line: read("line"), accent: read("accent"), good: read("good"), bad: read("bad"),
      tone: this.states.map(({ tone }) => read(`fill-${tone}`)),
      soft: this.states.map(({ tone }) => read(`${SOFT[tone] || tone}-soft`)),
      ink: this.states.map(({ tone }) => read(INK[tone] || tone)),
    };
    this.font = getComputedStyle(document.body).fontFamily;
    probe.remove();
  }

  resize(width, height) {
    this.width = width;
    this.height = height;
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
  }

  smallest() { return 0.5 * this.fitted().k; }

  fitted() {
    const { left, right, top, bottom } = this.box;
    const k = 0.94 * Math.min(this.width / (right - left), this.height / (bottom - top), 6);
    return { x: (left + right) / 2, y: (top + bottom) / 2, k };
  }

  radius(place) { return this.data.r[place] * this.camera.k; }

  // the circle under a point of the screen, the nearest centre within a finger's reach
  at(px, py, reach = 4) {
    let best = -1;
    let least = Infinity;
    for (let n = 0; n < this.shown; n++) {
      const i = this.seen[n];
      const away = Math.hypot(this.sx[i] - px, this.sy[i] - py) - this.radius(i);
      if (away < reach && away < least) { least = away; best = i; }
    }
    return best;
  }

  draw() {
    const { pen, colours } = this;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.fillStyle = colours.back;
    pen.fillRect(0, 0, this.width, this.height);
    if (!this.count) return;
    this.project();
    if (this.lit) this.dim();
    for (let state = 0; state < this.states.length; state++) this.circles(state);
    this.rings();
    this.mark(this.hover, colours.text, 2);
    this.mark(this.chosen, colours.accent, 3);
    this.labels();
  }

  project() {
    const { x, y, r } = this.data;
    const { x: cx, y: cy, k } = this.camera;
    this.shown = 0;
    for (let i = 0; i < this.count; i++) {
      const sx = (x[i] - cx) * k + this.width / 2;
      const sy = (y[i] - cy) * k + this.height / 2;
      const reach = r[i] * k + 2;
      this.sx[i] = sx;
      this.sy[i] = sy;
      if (sx + reach > 0 && sy + reach > 0 && sx - reach < this.width && sy - reach < this.height) this.seen[this.shown++] = i;
    }
  }

  trace(keep) {
    this.pen.beginPath();
    let any = false;
    for (let n = 0; n < this.shown; n++) {
      const i = this.seen[n];
      if (!keep(i)) continue;
      const radius = this.radius(i);
      any = true;
      if (radius < 1.5) this.pen.rect(this.sx[i] - radius, this.sy[i] - radius, 2 * radius, 2 * radius);
      else { this.pen.moveTo(this.sx[i] + radius, this.sy[i]); this.pen.arc(this.sx[i], this.sy[i], radius, 0, TURN); }
    }
    return any;
  }

  dim() {
    if (!this.trace((i) => !this.lit.has(i))) return;
    this.pen.strokeStyle = this.colours.line;
    this.pen.lineWidth = 1;
    this.pen.stroke();
  }

  circles(state) {
    const { pen, colours, data } = this;
    if (!this.trace((i) => data.state[i] === state && (!this.lit || this.lit.has(i)))) return;
    pen.fillStyle = this.camera.k * 12 < 3 ? colours.tone[state] : colours.soft[state];
    pen.fill();
    pen.strokeStyle = colours.tone[state];
    pen.lineWidth = 1.5;
    if (this.states[state].state === "dismissed") pen.setLineDash([3, 3]);
    pen.stroke();
    pen.setLineDash([]);
  }

  // the share of pairs told apart as a ring, then the state's sign or the tools themselves
  rings() {
    const { pen, colours, data } = this;
    this.wanted = [];
    for (let n = 0; n < this.shown; n++) {
      const i = this.seen[n];
      const radius = this.radius(i);
      if (radius < SIGN_AT || (this.lit && !this.lit.has(i))) continue;
      if (data.share[i]) {
        pen.beginPath();
        pen.arc(this.sx[i], this.sy[i], radius - 1, -TURN / 4, -TURN / 4 + (TURN * data.share[i]) / 100);
        pen.strokeStyle = colours.tone[data.state[i]];
        pen.lineWidth = Math.min(6, 2 + radius / 20);
        pen.stroke();
      }
      const detail = radius >= OPEN_AT && this.details.get(data.id[i]);
      if (detail) this.tools(i, radius, detail);
      else this.sign(i, radius);
      if (radius >= OPEN_AT && !detail) this.wanted.push(data.id[i]);
    }
  }

  sign(i, radius) {
    const { pen } = this;
    const scale = Math.min(2, radius / 11);
    pen.save();
    pen.translate(this.sx[i], this.sy[i]);
    pen.scale(scale, scale);
    pen.lineWidth = 1.8;
    pen.lineCap = pen.lineJoin = "round";
    pen.strokeStyle = this.colours.ink[this.data.state[i]];
    pen.stroke(this.signs[this.data.state[i]]);
    pen.restore();
  }

  tools(i, radius, detail) {
    const { pen, colours } = this;
    const px = (t) => this.sx[i] + detail.at[2 * t] * radius;
    const py = (t) => this.sy[i] + detail.at[2 * t + 1] * radius;
    for (const covered of [0, 1]) {
      pen.beginPath();
      for (const [a, b, is] of detail.edges) if (is === covered) { pen.moveTo(px(a), py(a)); pen.lineTo(px(b), py(b)); }
      pen.strokeStyle = covered ? colours.good : colours.bad;
      pen.lineWidth = covered ? 2 : 1;
      pen.setLineDash(covered ? [] : [3, 3]);
      pen.stroke();
    }
    pen.setLineDash([]);
    const dot = Math.max(2.5, Math.min(7, radius / 14));
    detail.tools.forEach(([id, , deprecated], t) => {
      pen.beginPath();
      pen.arc(px(t), py(t), id === this.tool ? dot + 2 : dot, 0, TURN);
      pen.fillStyle = deprecated ? colours.back : id === this.tool ? colours.accent : colours.text;
      pen.fill();
      if (deprecated) { pen.strokeStyle = colours.text; pen.lineWidth = 1.5; pen.stroke(); }
    });
  }

  mark(i, colour, width) {
    if (i < 0 || i >= this.count) return;
    this.pen.beginPath();
    this.pen.arc(this.sx[i], this.sy[i], this.radius(i) + 3, 0, TURN);
    this.pen.strokeStyle = colour;
    this.pen.lineWidth = width;
    this.pen.stroke();
  }

  // names by priority (chosen, searched, then the costliest gaps): a name that would touch another is left out
  labels() {
    this.taken = [];
    this.pen.textBaseline = "top";
    this.pen.lineJoin = "round";
    for (const i of [this.chosen, this.hover]) if (i >= 0 && i < this.count) this.clusterLabel(i, true);
    for (let n = 0; n < this.shown && this.taken.length < MOST_LABELS; n++) {
      const i = this.seen[n];
      if (this.radius(i) < 7 || (this.lit && !this.lit.has(i)) || i === this.chosen || i === this.hover) continue;
      this.clusterLabel(i, false);
    }
    for (let n = 0; n < this.shown && this.taken.length < MOST_LABELS; n++) this.toolLabels(this.seen[n]);
  }

  clusterLabel(i, strong) {
    const radius = this.radius(i);
    const below = radius < OPEN_AT;
    this.label(this.data.label[i], this.sx[i], this.sy[i] + (below ? radius + 3 : -radius - 17), strong || !below ? 600 : 400, 26);
  }

  toolLabels(i) {
    const radius = this.radius(i);
    const detail = radius >= 80 && this.details.get(this.data.id[i]);
    if (!detail || (this.lit && !this.lit.has(i))) return;
    detail.order.forEach((t) => {
      const name = detail.tools[t][1];
      this.label(name.slice(name.indexOf("/") + 1), this.sx[i] + detail.at[2 * t] * radius, this.sy[i] + detail.at[2 * t + 1] * radius + 8, 400, 34);
    });
  }

  label(text, x, y, weight, most) {
    const short = text.length > most ? `${text.slice(0, most - 1)}…` : text;
    const key = `${weight}${short}`;
    this.pen.font = `${weight} 12px ${this.font}`;
    let width = this.widths.get(key);
    if (width === undefined) this.widths.set(key, (width = this.pen.measureText(short).width));
    const box = { left: x - width / 2 - 3, right: x + width / 2 + 3, top: y - 1, bottom: y + 14 };
    if (box.right < 0 || box.left > this.width || box.bottom < 0 || box.top > this.height) return;
    if (this.taken.some((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom)) return;
    this.taken.push(box);
    this.pen.strokeStyle = this.colours.back;
    this.pen.lineWidth = 3;
    this.pen.strokeText(short, box.left + 3, y);
    this.pen.fillStyle = this.colours.text;
    this.pen.fillText(short, box.left + 3, y);
  }

  // tools of one cluster: [[id, name, deprecated]] and pairs [[a, b, covered]]
  remember(id, { tools, edges }) {
    const open = new Uint8Array(tools.length);
    for (const [a, b, covered] of edges) { open[a] += 1 - covered; open[b] += 1 - covered; }
    const sought = (t) => Number(tools[t][0] === this.tool);
    const order = [...tools.keys()].sort((a, b) => sought(b) - sought(a) || open[b] - open[a]);
    this.details.set(id, { tools, edges, at: insideCircle(tools.length, edges), order });
  }
}

// Places inside the unit circle, two numbers a tool: pairs attract, all push; the same on every visit.
function insideCircle(count, edges) {
  const at = Float64Array.from({ length: 2 * count }, (_, n) => 0.5 * (n % 2 ? Math.sin : Math.cos)((TURN * (n >> 1)) / count));
  const ideal = 0.9 / Math.sqrt(count);
  const move = new Float64Array(2 * count);
  const pull = (a, b, force) => {
    const dx = at[2 * b] - at[2 * a];
    const dy = at[2 * b + 1] - at[2 * a + 1];
    const length = Math.hypot(dx, dy) + 1e-4;
    const by = force(length) / length;
    move[2 * a] += dx * by; move[2 * a + 1] += dy * by;
    move[2 * b] -= dx * by; move[2 * b + 1] -= dy * by;
  };
  for (let round = 0; round < 120; round++) {
    move.fill(0);
    for (let a = 0; a < count; a++) for (let b = a + 1; b < count; b++) pull(a, b, (d) => (-ideal * ideal) / d);
    for (const [a, b] of edges) pull(a, b, (d) => (d * d) / ideal / 2);
    const step = 0.1 * (1 - round / 120);
    for (let n = 0; n < 2 * count; n++) at[n] += Math.max(-0.05, Math.min(0.05, step * (move[n] - 0.4 * at[n])));
  }
  // a crowded middle is opened: the n-th from the centre lies where an even disc has its n-th
  const far = (t) => Math.hypot(at[2 * t], at[2 * t + 1]);
  [...Array(count).keys()].sort((a, b) => far(a) - far(b) || a - b).forEach((t, rank) => {
    const by = count > 1 ? (0.82 * Math.sqrt((rank + 0.5) / (count - 0.5))) / (far(t) + 1e-6) : 0;
    at[2 * t] *= by;
    at[2 * t + 1] *= by;
  });
  return at;
}
