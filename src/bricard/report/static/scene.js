"use strict";
// The animation: polylines and points on a canvas; planar drawings from the front, spatial ones with a camera to rotate.

/** Positions of all vertices at any time, decoded from the integers in the page. */
class Motion {
  constructor(scene) {
    Object.assign(this, scene);
    this.values = decodeInt16(scene.data);
    this.moving = this.vertices - this.still.length;
    // Vertices that never move are stored once, before all frames; the others are indexed within a frame.
    const still = new Set(this.still);
    const counts = [0, 0];
    this.place = Array.from({ length: this.vertices }, (_, i) => [still.has(i), counts[+still.has(i)]++]);
  }
  /** Position of vertex `i` in frame `f` (an integer), or null if it is not finite. */
  vertex(f, i) {
    const [still, place] = this.place[i];
    const at = (still ? place : this.still.length + f * this.moving + place) * this.dimension;
    if (this.values[at] < -32000) return null;
    return this.middle.map((m, c) => m + this.scale * this.values[at + c]);
  }
  /** Fractional frame at a time. */
  frame(time) {
    const [start, end] = this.span;
    return end > start ? Math.min(Math.max((time - start) / (end - start), 0), 1) * (this.frames - 1) : 0;
  }
  /** Position of vertex `i`, interpolated at a fractional frame. */
  interpolate(frame, i) {
    const f = Math.min(Math.floor(frame), this.frames - 1);
    const a = this.vertex(f, i);
    const b = this.vertex(Math.min(f + 1, this.frames - 1), i);
    return a && b ? a.map((x, c) => x + (frame - f) * (b[c] - x)) : a;
  }
}

/** Projection from metres to pixels; depth grows towards the viewer. */
class Camera {
  constructor(motion) {
    this.motion = motion;
    this.reset();
  }
  reset() {
    [this.yaw, this.pitch, this.zoom] = [-0.9, 0.42, 1];
  }
  fit(width, height) {
    const { low, high, middle, dimension } = this.motion;
    const sides = low.map((x, c) => high[c] - x);
    [this.width, this.height] = [width, height];
    if (dimension === 2) {
      const least = 0.01 * Math.max(...sides) || 1; // a drawing may be a line or a point
      const [w, h] = [width - 70, height - 84];
      this.unit = Math.min(w / Math.max(sides[0], least), h / Math.max(sides[1], least));
    } else {
      this.radius = 0.5 * Math.hypot(...sides) || 1;
      this.unit = (this.zoom * 0.44 * Math.min(width, height * 1.1)) / this.radius;
    }
    this.centre = middle;
  }
  project(p) {
    const d = p.map((x, c) => x - this.centre[c]);
    if (d.length === 2) return [this.width / 2 + this.unit * d[0], this.height / 2 - this.unit * d[1], 0];
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    const right = cy * d[0] + sy * d[1];
    const away = -sy * d[0] + cy * d[1];
    const depth = sp * d[2] - cp * away;
    const near = this.unit / Math.max(1 - depth / (5 * this.radius), 0.2); // perspective from five radii away
    return [this.width / 2 + near * right, this.height / 2 - near * (cp * d[2] + sp * away), depth];
  }
}

class Scene {
  constructor(canvas, scene) {
    this.canvas = canvas;
    this.motion = new Motion(scene);
    this.camera = new Camera(this.motion);
    this.spatial = this.motion.dimension === 3;
    this.forces = scene.forces && new Forces(scene.forces, this.motion);
    const joints = scene.lines.some((line) => line.role === "joint");
    this.has = { traced: scene.traces.length > 0, jointed: joints, loaded: Boolean(scene.forces) };
    this.traced = this.jointed = this.loaded = true;
    this.time = this.motion.span[0];
    if (this.spatial) this.addRotation();
    addEventListener("resize", () => this.resize());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.resize());
    this.resize();
  }
  resize() {
    const style = getComputedStyle(document.documentElement);
    this.colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const { low, high } = this.motion;
    const width = this.canvas.parentElement.clientWidth;
    const shape = this.spatial ? 0.78 : (high[1] - low[1]) / (high[0] - low[0] || 1);
    const most = Math.min(innerWidth < 980 ? 0.46 * innerHeight : 0.68 * innerHeight, 640);
    const height = Math.max(Math.min((width - 70) * shape + 84, most), 200);
    this.canvas.style.height = `${height}px`;
    const ratio = devicePixelRatio || 1;
    [this.canvas.width, this.canvas.height] = [width * ratio, height * ratio];
    this.pen = this.canvas.getContext("2d");
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.camera.fit(width, height);
    this.thickness = Math.min(Math.max(0.14 * this.camera.unit * this.linkLength(), 1.5), 5);
    this.draw(this.time);
  }
  /** Median length of the moving links (m). */
  linkLength() {
    const { motion } = this;
    const links = motion.lines.filter((l) => l.role === "body" && l.group >= 0 && l.size > 1 && l.size < 5);
    const ends = links.map((l) => [motion.vertex(0, l.start), motion.vertex(0, l.start + l.size - 1)]);
    const lengths = ends.filter(([a, b]) => a && b).map(([a, b]) => Math.hypot(...a.map((x, c) => x - b[c])));
    return lengths.length ? lengths.sort((a, b) => a - b)[lengths.length >> 1] : Infinity;
  }
  addRotation() {
    const pointers = new Map();
    const redraw = () => {
      this.camera.fit(this.camera.width, this.camera.height);
      this.draw(this.time);
    };
    const distance = () => {
      const [a, b] = [...pointers.values()];
      return Math.hypot(a[0] - b[0], a[1] - b[1]);
    };
    const zoom = (factor) => (this.camera.zoom = Math.min(Math.max(this.camera.zoom * factor, 0.3), 8));
    this.canvas.addEventListener("pointerdown", (e) => {
      this.canvas.setPointerCapture(e.pointerId);
      pointers.set(e.pointerId, [e.clientX, e.clientY]);
    });
    this.canvas.addEventListener("pointermove", (e) => {
      if (!pointers.has(e.pointerId)) return;
      const [x, y] = pointers.get(e.pointerId);
      const before = pointers.size === 2 ? distance() : 0;
      pointers.set(e.pointerId, [e.clientX, e.clientY]);
      if (pointers.size === 2) zoom(distance() / (before || 1));
      else {
        this.camera.yaw -= 0.009 * (e.clientX - x);
        this.camera.pitch = Math.min(Math.max(this.camera.pitch + 0.009 * (e.clientY - y), -1.55), 1.55);
      }
      redraw();
    });
    for (const name of ["pointerup", "pointercancel"])
      this.canvas.addEventListener(name, (e) => pointers.delete(e.pointerId));
    const wheel = (e) => {
      if (!e.ctrlKey && !e.metaKey) return; // the plain wheel scrolls the page
      e.preventDefault();
      zoom(Math.exp(-0.002 * e.deltaY));
      redraw();
    };
    this.canvas.addEventListener("wheel", wheel, { passive: false });
    this.canvas.addEventListener("dblclick", () => {
      this.camera.reset();
      redraw();
    });
  }

  draw(time) {
    this.time = time;
    const { pen, camera, motion } = this;
    pen.clearRect(0, 0, camera.width, camera.height);
    pen.lineJoin = pen.lineCap = "round";
    if (this.spatial) this.floor();
    else this.grid();
    const frame = motion.frame(time);
    if (this.traced) this.traces(frame);
    const lines = motion.lines.map((line) => {
      const points = Array.from({ length: line.size }, (_, i) => motion.interpolate(frame, line.start + i));
      return { ...line, at: points.every(Boolean) ? points.map((p) => camera.project(p)) : null };
    });
    const shown = (line) => line.at && (this.jointed || !["joint", "axis"].includes(line.role));
    const depth = (line) => line.at.reduce((sum, p) => sum + p[2], 0) / line.at.length;
    // In the plane: the ground first, then links, masses and joints on top. In space: from far to near.
    const flat = (line) => (line.role !== "body" ? (line.role === "joint" ? 2 : 1) : line.group < 0 ? -2 : line.size === 1 ? 1 : 0);
    const rank = (line) => (this.spatial ? 0 : flat(line));
    const order = lines.filter(shown).sort((a, b) => rank(a) - rank(b) || depth(a) - depth(b));
    for (const line of order) line.role === "body" ? this.line(line) : this.part(line);
    for (const line of order) for (const i of line.pivots) this.pivot(line.at[i]);
    if (this.forces && this.loaded) this.arrows(frame);
  }
  line({ at, group, size, closed }) {
    const { pen } = this;
    const colour = group < 0 ? this.colour("ground") : this.colour(`c${group % 8}`);
    if (size === 1) return this.disc(at[0], group < 0 ? 4 : 1.6 * this.thickness, colour, this.colour("card"));
    const outline = size > 4;
    pen.beginPath();
    for (const [x, y] of at) pen.lineTo(x, y);
    if (closed && group >= 0) {
      pen.globalAlpha = 0.14;
      pen.fillStyle = colour;
      pen.fill();
      pen.globalAlpha = 1;
    }
    const width = group < 0 ? Math.min(2.5, this.thickness) : outline ? Math.min(2.2, this.thickness) : this.thickness;
    if (this.spatial) {
      // A halo shows which of two crossing lines is in front.
      [pen.strokeStyle, pen.lineWidth] = [this.colour("card"), width + 3];
      pen.stroke();
    }
    [pen.strokeStyle, pen.lineWidth] = [colour, width];
    pen.stroke();
    if (group < 0 && !this.spatial && size === 2) this.hatch(at[0], at[1]);
    if (outline || group < 0) return;
    for (const p of [at[0], at[size - 1]]) this.disc(p, 0.5 * width + 1, this.colour("card"), colour);
  }
  disc([x, y], radius, fill, edge) {
    const { pen } = this;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 7);
    [pen.fillStyle, pen.strokeStyle, pen.lineWidth] = [fill, edge, 1.5];
    pen.fill();
    pen.stroke();
  }
  /** Direction of the ground symbol at a fixed point: up near the top of the canvas, where mechanisms hang. */
  groundSide(y) {
    return y < 0.25 * this.camera.height ? -1 : 1;
  }
  /** Hatch a fixed line as ground, on the side away from the mechanism. */
  hatch(a, b) {
    if (b[0] < a[0] || (b[0] === a[0] && b[1] > a[1])) [a, b] = [b, a];
    const { pen } = this;
    const length = Math.hypot(b[0] - a[0], b[1] - a[1]);
    const [ux, uy] = [(b[0] - a[0]) / length, (b[1] - a[1]) / length];
    const side = 6 * this.groundSide(Math.max(a[1], b[1]));
    pen.beginPath();
    for (let s = 6; s < length; s += 9) {
      pen.moveTo(a[0] + s * ux, a[1] + s * uy);
      pen.lineTo(a[0] + (s - 6) * ux - side * uy, a[1] + (s - 6) * uy + side * ux);
    }
    [pen.strokeStyle, pen.lineWidth] = [this.colour("ground"), 1];
    pen.stroke();
  }
  /** Draw a fixed point of a link as a bearing. */
  pivot([x, y]) {
    const { pen } = this;
    const ground = this.colour("ground");
    const s = Math.min(10, 2 * this.thickness);
    if (!this.spatial) {
      const foot = y + 1.4 * s * this.groundSide(y);
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(x - 0.8 * s, foot);
      pen.lineTo(x + 0.8 * s, foot);
      pen.closePath();
      [pen.fillStyle, pen.strokeStyle, pen.lineWidth] = [this.colour("card"), ground, 1.5];
      pen.fill();
      pen.stroke();
      pen.beginPath();
      pen.moveTo(x - 1.3 * s, foot);
      pen.lineTo(x + 1.3 * s, foot);
      pen.stroke();
    }
    this.disc([x, y], 0.5 * this.thickness + 1, this.colour("card"), ground);
  }
  /** Draw the paths of the traced vertices, the recent part stronger. */
  traces(frame) {
    const { pen, motion, camera } = this;
    const recent = frame - 0.12 * motion.frames;
    for (const vertex of motion.traces) {
      const owner = motion.lines.find((l) => vertex >= l.start && vertex < l.start + l.size);
      const colour = owner.role === "point" ? "accent" : `c${owner.group % 8}`;
      [pen.strokeStyle, pen.lineWidth] = [this.colour(colour), 1.4];
      for (const [from, to, alpha] of [[0, recent, 0.16], [recent, frame, 0.65]]) {
        pen.globalAlpha = alpha;
        pen.beginPath();
        for (let f = Math.max(Math.ceil(from), 0); f <= to; f++) {
          const p = motion.vertex(f, vertex);
          if (p) pen.lineTo(...camera.project(p).slice(0, 2));
        }
        const end = to === frame && motion.interpolate(frame, vertex);
        if (end) pen.lineTo(...camera.project(end).slice(0, 2));
        pen.stroke();
      }
      pen.globalAlpha = 1;
    }
  }
  /** Draw a faint grid with its scale, for planar drawings. */
  grid() {
    const { pen, camera } = this;
    const step = niceStep(90 / camera.unit);
    pen.lineWidth = 1;
    pen.font = "11px system-ui, sans-serif";
    for (const [axis, size] of [[0, camera.width], [1, camera.height]]) {
      const half = size / 2 / camera.unit;
      for (let k = Math.ceil((camera.centre[axis] - half) / step); k * step <= camera.centre[axis] + half; k++) {
        const p = [...camera.centre];
        p[axis] = k * step;
        const at = camera.project(p)[axis];
        [pen.strokeStyle, pen.fillStyle] = [this.colour("grid"), this.colour("soft")];
        pen.beginPath();
        if (axis === 0) pen.moveTo(at, 0), pen.lineTo(at, camera.height);
        else pen.moveTo(0, at), pen.lineTo(camera.width, at);
        pen.stroke();
        const label = `${trimmed(k * step)}${k === 0 ? " m" : ""}`;
        if (axis === 0 && at > 40 && at < camera.width - 40) pen.fillText(label, at + 3, camera.height - 5);
        if (axis === 1 && at > 40 && at < camera.height - 24) pen.fillText(label, 4, at - 3);
      }
    }
  }
  /** Draw a floor below the system, for spatial drawings (z is up). */
  floor() {
    const { pen, camera, motion } = this;
    const { low, high } = motion;
    const step = niceStep(camera.radius / 3);
    const z = low[2];
    const [x0, x1] = [Math.floor(low[0] / step) - 1, Math.ceil(high[0] / step) + 1];
    const [y0, y1] = [Math.floor(low[1] / step) - 1, Math.ceil(high[1] / step) + 1];
    pen.beginPath();
    const stroke = (a, b) => {
      pen.moveTo(...camera.project(a).slice(0, 2));
      pen.lineTo(...camera.project(b).slice(0, 2));
    };
    for (let i = x0; i <= x1; i++) stroke([i * step, y0 * step, z], [i * step, y1 * step, z]);
    for (let j = y0; j <= y1; j++) stroke([x0 * step, j * step, z], [x1 * step, j * step, z]);
    [pen.strokeStyle, pen.lineWidth] = [this.colour("line"), 1];
    pen.stroke();
    // Axes and the grid spacing, in the corner.
    pen.fillStyle = this.colour("soft");
    pen.strokeStyle = this.colour("soft");
    pen.font = "11px system-ui, sans-serif";
    pen.fillText(`grid spacing ${trimmed(step)} m`, 12, camera.height - 8);
    const origin = camera.project(camera.centre);
    for (const [c, name] of ["x", "y", "z"].entries()) {
      const tip = camera.project(camera.centre.map((m, i) => m + (i === c ? 0.2 * camera.radius : 0)));
      const reach = 26 / (0.2 * camera.radius * camera.unit);
      const [x, y] = [38 + reach * (tip[0] - origin[0]), camera.height - 52 + reach * (tip[1] - origin[1])];
      pen.beginPath();
      pen.moveTo(38, camera.height - 52);
      pen.lineTo(x, y);
      pen.stroke();
      pen.fillText(name, x + 3, y);
    }
  }
}

/** Decode base64 to little-endian 16-bit integers. */
function decodeInt16(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Int16Array.from({ length: bytes.length / 2 }, (_, i) => view.getInt16(2 * i, true));
}

/** Smallest of …, 1, 2, 5, 10, … that is not below `x`. */
function niceStep(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  return power * [1, 2, 5, 10].find((n) => n * power >= x * 0.999);
}

/** A number as text without binary rounding noise. */
function trimmed(x) {
  return String(Number(x.toPrecision(10)));
}
