"use strict";
// Draws every chart of the page. Expressions are interpreted, not compiled, because the page's policy forbids eval.
const axis = {
  labelColor: "var(--soft)", titleColor: "var(--soft)", gridColor: "var(--line)", domainColor: "var(--line)",
  tickColor: "var(--line)", titleFontWeight: "normal", labelFontSize: 12, titleFontSize: 12, titlePadding: 12,
  labelOverlap: true, labelSeparation: 8,
};
const legend = {
  orient: "top", title: null, labelColor: "var(--ink)", labelFontSize: 12, labelLimit: 200, symbolStrokeWidth: 2,
  symbolOpacity: 1, columns: matchMedia("(max-width: 40rem)").matches ? 2 : 3,
};
const config = {
  aria: false, // the figure has one label; hundreds of points read aloud would not help
  background: null, font: "system-ui, sans-serif", view: { stroke: null }, axis, axisX: { grid: false }, legend,
  mark: { color: "var(--series-1)", tooltip: true }, rule: { color: "var(--soft)" }, text: { color: "var(--ink)" },
  range: { category: [1, 2, 3, 4, 5, 6].map((number) => `var(--series-${number})`) },
};
const look = { width: "container", autosize: { type: "fit-x", contains: "padding" }, config };
const options = { ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true } };
const specs = JSON.parse(document.getElementById("specs").textContent);
async function draw() {
  const packed = Uint8Array.from(atob(document.getElementById("vega").textContent), (letter) => letter.charCodeAt(0));
  const script = document.createElement("script");
  script.textContent = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.head.append(script);
  await Promise.all(specs.map((spec, number) => vegaEmbed(`#chart-${number}`, { ...spec, ...look }, options)));
}
// Charts in a folded part had no width until it was opened.
for (const part of document.querySelectorAll("details")) part.addEventListener("toggle", () => dispatchEvent(new Event("resize")));
draw().then(
  () => { document.documentElement.dataset.charts = "drawn"; },
  (error) => { document.documentElement.dataset.charts = "failed"; console.error(error); },
);
