// Parts of a mechanism besides its bodies: joints and their axes, springs, actuators, sensors, reaction forces.

/** Reaction forces of the joints on their child bodies at any time. */
class Forces {
  constructor(forces, motion) {
    Object.assign(this, forces, { dimension: motion.dimension, frames: motion.frames });
    this.values = decodeInt16(forces.data);
  }
  /** Force (N) at joint `j` in frame `f` (an integer), or null if it is not finite. */
  atFrame(f, j) {
    const at = (f * this.names.length + j) * this.dimension;
    if (this.values[at] < -32000) return null;
    return Array.from({ length: this.dimension }, (_, c) => this.scale * this.values[at + c]);
  }
  /** Force (N) at joint `j`, interpolated at a fractional frame. */
  interpolate(frame, j) {
    const f = Math.min(Math.floor(frame), this.frames - 1);
    const [a, b] = [this.atFrame(f, j), this.atFrame(Math.min(f + 1, this.frames - 1), j)];
    return a && b ? a.map((x, c) => x + (frame - f) * (b[c] - x)) : a;
  }
}

Object.assign(Scene.prototype, {
  /** Draw a spring, an actuator, the axis of a joint, a joint or the point of a sensor. */
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
  /** Add a zigzag from one point to another to the path. */
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
  /** Draw reaction forces as arrows at the joints, dashed where they are statically indeterminate. */
  arrows(frame) {
    const { pen, camera, motion, forces } = this;
    const size = Math.max(...motion.high.map((x, c) => x - motion.low[c]));
    const unit = (0.22 * size) / forces.largest; // metres of arrow per newton
    const colour = this.colour("force");
    for (const [j, vertex] of forces.vertices.entries()) {
      const [p, force] = [motion.interpolate(frame, vertex), forces.interpolate(frame, j)];
      if (!p || !force) continue;
      const from = camera.project(p);
      const to = camera.project(p.map((x, c) => x + unit * force[c]));
      const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
      const length = Math.hypot(dx, dy);
      if (length < 4) continue;
      const [ex, ey, head] = [dx / length, dy / length, Math.min(8, 0.5 * length)];
      const foot = [to[0] - head * ex, to[1] - head * ey];
      [pen.strokeStyle, pen.fillStyle, pen.lineWidth] = [colour, colour, 2];
      pen.setLineDash(forces.determinate[j] ? [] : [4, 3]);
      pen.beginPath();
      pen.moveTo(from[0], from[1]);
      pen.lineTo(...foot);
      pen.stroke();
      pen.setLineDash([]);
      pen.beginPath();
      pen.moveTo(to[0], to[1]);
      for (const side of [-0.45, 0.45]) pen.lineTo(foot[0] - side * head * ey, foot[1] + side * head * ex);
      pen.closePath();
      if (forces.determinate[j]) pen.fill();
      else [pen.lineWidth] = [1.2], pen.stroke();
    }
    this.forceScale(unit, colour);
  },
  /** Draw the scale of the arrows. */
  forceScale(unit, colour) {
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
    const note = this.forces.determinate.every(Boolean) ? "" : ", dashed: statically indeterminate";
    pen.fillText(`joint forces, ${trimmed(force)} N${note}`, x, y);
    pen.textAlign = "left";
  },
});
