// Connects the animation, the plots and the controls to one time.

(function start() {
  const find = (id) => document.getElementById(id);
  const data = JSON.parse(find("data").textContent);
  const [first, last] = data.span;
  const span = last - first;
  let [time, playing, before, scene] = [first, false, null, null];

  const charts = [];
  find("stage").hidden = !data.plots.length;
  if (data.scene) {
    const [width, height] = [0, 1].map((c) => data.scene.high[c] - data.scene.low[c]);
    const wide = data.scene.dimension === 2 && width > 4 * height;
    document.querySelector("main").classList.add(wide ? "wide" : "both");
    scene = new Scene(find("scene"), data.scene);
    find("scene").classList.toggle("spatial", scene.spatial);
    find("hint").hidden = !scene.spatial;
    for (const [i, name] of data.scene.groups.slice(0, 8).entries()) {
      const entry = element("li", {}, find("links"));
      element("i", { style: `background: var(--c${i})` }, entry);
      entry.append(name);
    }
  }
  for (const plot of data.plots) charts.push(new Chart(find("plots"), plot, data, (t) => seek(t, true)));
  find("picture").hidden = !data.scene;

  function show() {
    if (scene) scene.draw(time);
    for (const chart of charts) chart.show(time);
    find("scrub").value = span ? (time - first) / span : 0;
    find("time").textContent = `${time.toFixed(digits)} s`;
    document.documentElement.dataset.time = time;
  }
  function seek(t, stop) {
    if (stop) play(false);
    time = Math.min(Math.max(t, first), last);
    show();
  }
  function play(on) {
    if (on && !playing && time >= last) time = first;
    [playing, before] = [on && span > 0, null];
    const shape = playing ? "M5 3h5v18h-5zM14 3h5v18h-5z" : "M6 3l15 9-15 9z";
    const svg = element("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" });
    element("path", { d: shape }, svg);
    find("play").replaceChildren(svg);
    if (playing) requestAnimationFrame(tick);
  }
  function tick(now) {
    if (!playing) return;
    if (before !== null) time += (Math.min(now - before, 200) / 1000) * Number(find("speed").value);
    before = now;
    if (time > last) time = first; // loop
    show();
    requestAnimationFrame(tick);
  }

  // Real time for runs of two seconds to a minute; other runs are shown in about ten seconds.
  const normalSpeed = span >= 2 && span <= 60 ? 1 : niceStep(span / 10 || 1);
  const digits = Math.max(0, Math.min(6, 3 - Math.floor(Math.log10(span || 1))));
  for (const factor of [0.1, 0.2, 0.5, 1, 2, 5]) {
    const option = element("option", { value: normalSpeed * factor }, find("speed"), `× ${trimmed(normalSpeed * factor)}`);
    option.selected = factor === 1;
  }
  for (const t of data.singular) element("i", { style: `left: calc(7px + (100% - 16px) * ${(t - first) / span})` }, find("track"));

  find("play").addEventListener("click", () => play(!playing));
  find("scrub").addEventListener("input", (e) => seek(first + span * Number(e.target.value), true));
  for (const label of document.querySelectorAll("[data-shows]")) {
    const layer = label.dataset.shows;
    label.hidden = !scene || !scene.has[layer];
    label.firstChild.addEventListener("change", (e) => {
      scene[layer] = e.target.checked;
      show();
    });
  }
  for (const button of document.querySelectorAll("[data-time]"))
    button.addEventListener("click", () => seek(Number(button.dataset.time), true));
  // Clicked controls give up the focus, so that the space bar plays or pauses.
  document.addEventListener("click", (e) => e.detail && e.target.matches("button, input") && e.target.blur());
  find("speed").addEventListener("change", (e) => e.target.blur());
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === "SELECT") return;
    if (e.key === " " && e.target.matches("button, [type=checkbox]")) return; // keep the default action
    const moves = { ArrowLeft: time - span / 200, ArrowRight: time + span / 200, Home: first, End: last };
    if (e.key === " ") play(!playing);
    else if (e.key in moves) seek(moves[e.key], true);
    else return;
    e.preventDefault();
  });

  if (!charts.length) return;
  play(!matchMedia("(prefers-reduced-motion: reduce)").matches);
  show();
})();
