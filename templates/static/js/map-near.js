// What is seen near by: the tools of a cluster with their pairs, and labels that never lie on each other.
const MOST_LABELS = 90;
const ALWAYS = 12; // of the gaps in view with the most open pairs, however small their circles are

Object.assign(ClusterMap.prototype, {
  tools(i, radius, detail) {
    const { pen, colours } = this;
    const px = (t) => this.sx[i] + detail.at[2 * t] * radius;
    const py = (t) => this.sy[i] + detail.at[2 * t + 1] * radius;
    for (const state of [0, 2, 1]) { // open, named only, told apart
      pen.beginPath();
      for (const [a, b, is] of detail.edges) if (is === state) { pen.moveTo(px(a), py(a)); pen.lineTo(px(b), py(b)); }
      pen.strokeStyle = state === 1 ? colours.good : colours.bad;
      pen.lineWidth = state === 1 ? 2 : 1;
      pen.setLineDash(state === 1 ? [] : state === 2 ? [8, 3] : [3, 3]);
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
  },

  // names by priority (chosen, searched, then those with the most open pairs): a name that would touch another is left out
  labels() {
    this.taken = [];
    this.pen.textBaseline = "top";
    this.pen.lineJoin = "round";
    for (const i of [this.chosen, this.hover]) if (i >= 0 && i < this.count) this.clusterLabel(i, true);
    for (let n = 0; n < this.shown && this.taken.length < MOST_LABELS; n++) {
      const i = this.seen[n];
      if ((this.radius(i) < 7 && this.taken.length >= ALWAYS) || (this.lit && !this.lit.has(i)) || i === this.chosen || i === this.hover) continue;
      this.clusterLabel(i, false);
    }
    for (let n = 0; n < this.shown && this.taken.length < MOST_LABELS; n++) this.toolLabels(this.seen[n]);
  },

  clusterLabel(i, strong) {
    const radius = this.radius(i);
    const below = radius < OPEN_AT;
    this.label(this.data.label[i], this.sx[i], this.sy[i] + (below ? radius + 3 : -radius - 17), strong || !below ? 600 : 400, 26);
  },

  toolLabels(i) {
    const radius = this.radius(i);
    const detail = radius >= 80 && this.details.get(this.data.id[i]);
    if (!detail || (this.lit && !this.lit.has(i))) return;
    detail.order.forEach((t) => {
      const name = detail.tools[t][1];
      this.label(name.slice(name.indexOf("/") + 1), this.sx[i] + detail.at[2 * t] * radius, this.sy[i] + detail.at[2 * t + 1] * radius + 8, 400, 34);
    });
  },

  label(text, x, y, weight, most) {
    const short = text.length > most ? `${text.slice(0, most - 1)}…` : text;
    const key = `${weight}${short}`;
    this.pen.font = `${weight} 12px ${this.font}`;
    let width = this.widths.get(key);
    if (width === undefined) this.widths.set(key, (width = this.pen.measureText(short).width));
    const half = width / 2 + 3;
    if (x + half < 0 || x - half > this.width || y + 14 < 0 || y - 1 > this.height) return;
    const left = Math.max(0, Math.min(x - half, this.width - 2 * half)); // at an edge the name moves in, to be read whole
    const box = { left, right: left + 2 * half, top: y - 1, bottom: y + 14 };
    if (this.taken.some((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom)) return;
    this.taken.push(box);
    this.pen.strokeStyle = this.colours.back;
    this.pen.lineWidth = 3;
    this.pen.strokeText(short, box.left + 3, y);
    this.pen.fillStyle = this.colours.text;
    this.pen.fillText(short, box.left + 3, y);
  },

  // tools of one cluster: [[id, name, deprecated]] and pairs [[a, b, 1: told apart, 2: named only, 0: open]]
  remember(id, { tools, edges }) {
    const open = new Uint8Array(tools.length);
    for (const [a, b, state] of edges) if (state !== 1) { open[a] += 1; open[b] += 1; }
    const sought = (t) => Number(tools[t][0] === this.tool);
    const order = [...tools.keys()].sort((a, b) => sought(b) - sought(a) || open[b] - open[a]);
    this.details.set(id, { tools, edges, at: insideCircle(tools.length, edges), order });
  },
});

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
