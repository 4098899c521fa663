// Plots over time that share a cursor with the animation; the legend of each plot shows the values at the cursor.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, parent = null, text = null) {
  const svg = ["svg", "path", "line", "text", "g", "clipPath", "rect"].includes(name);
  const made = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

class Chart {
  constructor(parent, plot, data, scrub) {
    Object.assign(this, { plot, data, margin: { left: 46, right: 18, top: 8, bottom: 20 } });
    const figure = element("figure", { class: "plot" }, parent);
    const caption = element("figcaption", {}, figure, `${plot.title} `);
    this.unit = element("span", {}, caption);
    this.svg = element("svg", { role: "img", "aria-label": `${plot.title} over time` }, figure);
    const legend = element("ul", { class: "legend" }, figure);
    this.values = plot.curves.map((curve, i) => {
      const entry = element("li", {}, legend);
      element("i", { style: `background: var(--c${i % 8})` }, entry);
      entry.append(curve.name);
      return element("output", {}, entry);
    });
    if (plot.note) element("p", { class: "note" }, figure, plot.note);
    this.range = this.bounds();
    this.listen(scrub);
    addEventListener("resize", () => this.layout());
    this.layout();
  }
  /** Limits of the vertical axis (exponents of ten on a logarithmic one). */
  bounds() {
    const { log, curves } = this.plot;
    const every = curves.flatMap((c) => c.y).filter((y) => y !== null).map((y) => (log ? logarithm(y) : y));
    if (!every.length) return [0, 1];
    let [low, high] = every.reduce(([a, b], y) => [Math.min(a, y), Math.max(b, y)], [Infinity, -Infinity]);
    if (log) return [Math.floor(low), Math.max(Math.ceil(high), Math.floor(low) + 1)];
    if (high - low <= 1e-12 * Math.max(Math.abs(low), Math.abs(high), 1e-300)) {
      const room = Math.abs(low) || 1;
      return [low - room, high + room];
    }
    const room = 0.06 * (high - low);
    return [low - room, high + room];
  }
  x(t) {
    const [start, end] = this.data.span;
    return this.margin.left + (this.inner.width * (t - start)) / (end - start || 1);
  }
  y(value) {
    const [low, high] = this.range;
    const v = this.plot.log ? logarithm(value) : value;
    return this.margin.top + this.inner.height * (1 - (v - low) / (high - low));
  }
  layout() {
    const { svg, margin, plot, data } = this;
    const [width, height] = [svg.clientWidth || 600, svg.clientHeight || 168];
    this.inner = { width: width - margin.left - margin.right, height: height - margin.top - margin.bottom };
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    this.axes(width, height);
    for (const t of data.singular) this.verticalLine(t, "singular");
    plot.curves.forEach((curve, i) => {
      const style = `stroke: var(--c${i % 8})`;
      element("path", { class: curve.indeterminate ? "curve indeterminate" : "curve", style, d: this.path(curve.y) }, svg);
    });
    this.cursor = this.verticalLine(this.time ?? data.span[0], "cursor");
  }
  verticalLine(t, kind) {
    const { top } = this.margin;
    const at = { x1: this.x(t), x2: this.x(t), y1: top, y2: top + this.inner.height };
    return element("line", { class: kind, ...at }, this.svg);
  }
  path(values) {
    let [d, pen] = ["", "M"];
    values.forEach((value, i) => {
      if (value === null) pen = "M";
      else {
        d += `${pen}${this.x(this.data.t[i]).toFixed(1)} ${this.y(value).toFixed(1)}`;
        pen = "L";
      }
    });
    return d && values.length === 1 ? `${d}h3` : d;
  }
  axes(width, height) {
    const { svg, margin, plot, data } = this;
    const [low, high] = this.range;
    const [start, end] = data.span;
    const grid = (t, at) => element("line", { class: t, ...at }, svg);
    const times = niceStep((end - start || 1) / Math.max(this.inner.width / 80, 2));
    for (let k = Math.ceil(start / times - 1e-9); k * times <= end + 1e-9 * times; k++) {
      const x = this.x(k * times);
      grid("grid", { x1: x, x2: x, y1: margin.top, y2: margin.top + this.inner.height });
      const last = (k + 1) * times > end + 1e-9 * times;
      element("text", { x, y: height - 5, "text-anchor": "middle" }, svg, trimmed(k * times) + (last ? " s" : ""));
    }
    const step = plot.log ? Math.ceil((high - low) / 5) : niceStep((high - low) / 5);
    const power = Math.floor(Math.log10(Math.max(Math.abs(low), Math.abs(high))));
    const scale = !plot.log && (power >= 5 || power <= -3) ? power : 0;
    const unit = [scale ? `10${superscript(scale)}` : "", plot.unit].filter(Boolean).join(" ");
    this.unit.textContent = unit && `(${unit})`;
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
      const y = this.y(plot.log ? 10 ** (k * step) : k * step);
      grid(k === 0 && !plot.log ? "zero" : "grid", { x1: margin.left, x2: width - margin.right, y1: y, y2: y });
      const label = plot.log ? `10${superscript(k * step)}` : trimmed((k * step) / 10 ** scale);
      element("text", { x: margin.left - 6, y: y + 4, "text-anchor": "end" }, svg, label.replace("-", "−"));
    }
  }
  /** Click or drag to set the time; hover to read values. */
  listen(scrub) {
    const time = (event) => {
      const [start, end] = this.data.span;
      const x = event.clientX - this.svg.getBoundingClientRect().left - this.margin.left;
      return start + Math.min(Math.max(x / this.inner.width, 0), 1) * (end - start);
    };
    this.svg.addEventListener("pointerdown", (e) => {
      this.svg.setPointerCapture(e.pointerId);
      scrub(time(e));
    });
    this.svg.addEventListener("pointermove", (e) => {
      if (e.buttons) scrub(time(e));
      else {
        this.hovered = time(e);
        this.show(this.time);
      }
    });
    for (const name of ["pointerleave", "pointerdown"])
      this.svg.addEventListener(name, () => {
        this.hovered = null;
        this.show(this.time);
      });
  }
  /** Move the cursor to a time (or to the pointer, while it hovers) and show the values there in the legend. */
  show(time) {
    this.time = time;
    const at = this.hovered ?? time;
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, this.x(at));
    const { t } = this.data;
    let [a, b] = [0, t.length - 1];
    while (b - a > 1) {
      const middle = (a + b) >> 1;
      if (t[middle] <= at) a = middle;
      else b = middle;
    }
    const i = at - t[a] < t[b] - at ? a : b;
    this.plot.curves.forEach((curve, j) => (this.values[j].textContent = readable(curve.y[i])));
  }
}

/** Decimal logarithm, at least −17: zero is drawn below all rounding errors. */
function logarithm(x) {
  return Math.log10(Math.max(x, 1e-17));
}

function superscript(n) {
  return String(n).replace(/./g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
}

/** A value with three or four significant digits. */
function readable(x) {
  if (x === null || x === undefined) return "–";
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) {
    const [digits, power] = x.toExponential(2).split("e");
    return `${digits}·10${superscript(Number(power))}`.replace("-", "−");
  }
  return Number(x.toPrecision(4)).toString().replace("-", "−");
}
