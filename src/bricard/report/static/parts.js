// What a mechanism has besides its bodies: joints and their axes, springs, actuators, sensors, reaction forces.

/** Reaction forces of joints on their child bodies at any time. */
class Forces {
  constructor(forces, motion) {
    Object.assign(this, forces, { dimension: motion.dimension, frames: motion.frames });
    this.values = wholeNumbers(forces.data);
  }
  /** Force (N) at joint `j` in whole frame `f`, or null. */
  whole(f, j) {
    const at = (f * this.names.length + j) * this.dimension;
    if (this.values[at] < -32000) return null;
    return Array.from({ length: this.dimension }, (_, c) => this.scale * this.values[at + c]);
  }
  /** The same at a fractional frame. */
  between(frame, j) {
    const f = Math.min(Math.floor(frame), this.frames - 1);
    const [a, b] = [this.whole(f, j), this.whole(Math.min(f + 1, this.frames - 1), j)];
    return a && b ? a.map((x, c) => x + (frame - f) * (b[c] - x)) : a;
  }
}

Object.assign(Scene.prototype, {
  /** A spring, an actuator, the axis of a joint, a joint, a point that is watched. */
  part({ at, role }) {
    const { pen } = this;
    if (role === "joint") return this.disc(at[0], 0.5 * this.thickness + 1.5, this.colour("card"), this.colour("ink"));
    if (role === "point") return this.disc(at[0], 0.6 * this.thickness + 1, this.colour("accent"), this.colour("card"));
    pen.beginPath();
    if (role === "spring") this.coil(at[0], at[1]);
    else for (const [x, y] of at) pen.lineTo(x, y);
    [pen.strokeStyle, pen.lineWidth] = [this.colour(role === "actuator" ? "accent" : "soft"), role === "actuator" ? 3 : 1.4];
    if (role === "axis") pen.setLineDash([7, 3, 1, 3]);
    pen.stroke();
    pen.setLineDash([]);
  },
  /** A zigzag from one point to another. */
  coil([x, y], [u, v]) {
    const { pen } = this;
    const length = Math.hypot(u - x, v - y) || 1;
    const [ex, ey] = [(u - x) / length, (v - y) / length];
    const [turns, width] = [8, Math.min(2.2 * this.thickness, 9)];
    pen.moveTo(x, y);
    for (let k = 0; k <= 2 * turns; k++) {
      const along = (0.12 + (0.76 * k) / (2 * turns)) * length;
      const side = k === 0 || k === 2 * turns ? 0 : k % 2 ? width : -width;
      pen.lineTo(x + along * ex - side * ey, y + along * ey + side * ex);
    }
    pen.lineTo(u, v);
  },
  /** Reaction forces as arrows at the joints; dashed where a rigid model does not determine them. */
  arrows(frame) {
    const { pen, camera, motion, forces } = this;
    const size = Math.max(...motion.high.map((x, c) => x - motion.low[c]));
    const unit = (0.22 * size) / forces.largest; // metres of arrow per newton
    const colour = this.colour("force");
    for (const [j, vertex] of forces.vertices.entries()) {
      const [p, force] = [motion.between(frame, vertex), forces.between(frame, j)];
      if (!p || !force) continue;
      const from = camera.project(p);
      const to = camera.project(p.map((x, c) => x + unit * force[c]));
      const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
      const length = Math.hypot(dx, dy);
      if (length < 4) continue;
      const [ex, ey, head] = [dx / length, dy / length, Math.min(8, 0.5 * length)];
      const foot = [to[0] - head * ex, to[1] - head * ey];
      [pen.strokeStyle, pen.fillStyle, pen.lineWidth] = [colour, colour, 2];
      pen.setLineDash(forces.known[j] ? [] : [4, 3]);
      pen.beginPath();
      pen.moveTo(from[0], from[1]);
      pen.lineTo(...foot);
      pen.stroke();
      pen.setLineDash([]);
      pen.beginPath();
      pen.moveTo(to[0], to[1]);
      for (const side of [-0.45, 0.45]) pen.lineTo(foot[0] - side * head * ey, foot[1] + side * head * ex);
      pen.closePath();
      if (forces.known[j]) pen.fill();
      else [pen.lineWidth] = [1.2], pen.stroke();
    }
    this.key(unit, colour);
  },
  /** How long an arrow of a round force is. */
  key(unit, colour) {
    const { pen, camera } = this;
    const force = niceStep(this.forces.largest / 2);
    const length = camera.unit * unit * force;
    const [x, y] = [camera.width - 14, camera.height - 34];
    [pen.strokeStyle, pen.fillStyle, pen.lineWidth] = [colour, this.colour("soft"), 2];
    pen.beginPath();
    pen.moveTo(x - length, y + 8);
    pen.lineTo(x, y + 8);
    pen.stroke();
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "right";
    const doubt = this.forces.known.every(Boolean) ? "" : ", dashed: not determined";
    pen.fillText(`joint forces, ${trimmed(force)} N${doubt}`, x, y);
    pen.textAlign = "left";
  },
});
