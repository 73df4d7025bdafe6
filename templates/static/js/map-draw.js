// Draws clusters on a canvas as circles; what is seen near by (tools, pairs, labels) lies in map-near.js.
// It knows no events and no network: map.js moves the camera, hands in data, and asks for a new frame.
// States come from the key beside the map: its signs (paths in a box from -6 to 6) and tones are those drawn here.
const OPEN_AT = 30; // screen radius from which a circle shows its tools
const SIGN_AT = 6;
const STAMPED = 16; // up to this screen radius
const CROWDED = 1500; // circles in view
const ANEW_MS = 150;
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
    this.stamps = new Map();
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
    this.stamps.clear();
  }

  resize(width, height) {
    this.width = width;
    this.height = height;
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    this.stamps.clear();
    this.kept = null;
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    this.pen.fillStyle = this.colours.back; // an opaque canvas is black until something is drawn
    this.pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
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

  // while a crowded map moves, the last picture is moved along; it is drawn anew a few times a second and at rest
  draw(moving = false) {
    const { pen, colours } = this;
    clearTimeout(this.rest);
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.fillStyle = colours.back;
    pen.fillRect(0, 0, this.width, this.height);
    if (!this.count) return;
    this.project();
    if (moving && this.slide()) { this.rest = setTimeout(() => requestAnimationFrame(() => this.draw()), ANEW_MS); return; }
    this.circles();
    this.rings();
    this.mark(this.hover, colours.text, 2);
    this.mark(this.chosen, colours.accent, 3);
    this.labels();
    if (this.shown > CROWDED) this.keep();
    else this.kept = null;
  }

  keep() {
    this.copy ??= document.createElement("canvas");
    this.copy.width = this.canvas.width;
    this.copy.height = this.canvas.height;
    this.copy.getContext("2d", { alpha: false }).drawImage(this.canvas, 0, 0);
    this.kept = { ...this.camera, at: performance.now() };
  }

  slide() {
    const { kept, camera, width, height } = this;
    if (!kept || performance.now() - kept.at > ANEW_MS || Math.abs(Math.log(camera.k / kept.k)) > 0.4) return false;
    const scale = camera.k / kept.k;
    const left = (kept.x - camera.x) * camera.k + (width / 2) * (1 - scale);
    const top = (kept.y - camera.y) * camera.k + (height / 2) * (1 - scale);
    this.pen.drawImage(this.copy, left, top, width * scale, height * scale);
    return true;
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

  // small circles are stamped from pictures made once a state and radius: thousands a frame without a graphics card
  circles() {
    const { pen, data, sx, sy } = this;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    for (let n = 0; n < this.shown; n++) {
      const i = this.seen[n];
      const kind = this.lit && !this.lit.has(i) ? -1 : data.state[i];
      const radius = this.radius(i);
      if (radius > STAMPED) {
        pen.setTransform(this.ratio, 0, 0, this.ratio, sx[i] * this.ratio, sy[i] * this.ratio);
        this.circle(pen, kind, radius);
        pen.setTransform(1, 0, 0, 1, 0, 0);
        continue;
      }
      // on whole pixels and unscaled, so that a stamp is copied and not computed
      const picture = this.stamp(kind, Math.max(4, Math.round(radius * 4)));
      pen.drawImage(picture, Math.round(sx[i] * this.ratio - picture.width / 2), Math.round(sy[i] * this.ratio - picture.height / 2));
    }
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
  }

  stamp(kind, steps) {
    const key = 1000 * steps + kind;
    let picture = this.stamps.get(key);
    if (picture) return picture;
    if (this.stamps.size > 900) this.stamps.clear();
    const half = steps / 4 + 2;
    picture = document.createElement("canvas");
    picture.width = picture.height = Math.ceil(2 * half * this.ratio);
    const pen = picture.getContext("2d");
    pen.scale(picture.width / (2 * half), picture.height / (2 * half));
    pen.translate(half, half);
    this.circle(pen, kind, steps / 4);
    if (kind >= 0 && steps / 4 >= SIGN_AT) this.sign(pen, kind, steps / 4);
    this.stamps.set(key, picture);
    return picture;
  }

  // kind -1: a cluster that is not lit
  circle(pen, kind, radius) {
    const { colours } = this;
    pen.beginPath();
    pen.arc(0, 0, Math.max(0.6, radius - 0.5), 0, TURN);
    if (kind >= 0) { pen.fillStyle = radius < 3 ? colours.tone[kind] : colours.soft[kind]; pen.fill(); }
    pen.strokeStyle = kind < 0 ? colours.line : colours.tone[kind];
    pen.lineWidth = kind < 0 ? 1 : 1.5;
    if (kind >= 0 && this.states[kind].state === "dismissed") pen.setLineDash([3, 3]);
    pen.stroke();
    pen.setLineDash([]);
  }

  // the share of pairs told apart as a ring; in large circles the tools themselves
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
      else if (radius > STAMPED) { pen.save(); pen.translate(this.sx[i], this.sy[i]); this.sign(pen, data.state[i], radius); pen.restore(); }
      if (radius >= OPEN_AT && !detail) this.wanted.push(data.id[i]);
    }
  }

  sign(pen, kind, radius) {
    const scale = Math.min(2, radius / 11);
    pen.scale(scale, scale);
    pen.lineWidth = 1.8;
    pen.lineCap = pen.lineJoin = "round";
    pen.strokeStyle = this.colours.ink[kind];
    pen.stroke(this.signs[kind]);
  }

  mark(i, colour, width) {
    if (i < 0 || i >= this.count) return;
    this.pen.beginPath();
    this.pen.arc(this.sx[i], this.sy[i], this.radius(i) + 3, 0, TURN);
    this.pen.strokeStyle = colour;
    this.pen.lineWidth = width;
    this.pen.stroke();
  }

}
