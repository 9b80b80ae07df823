"use strict";
// Draws every chart of the page. Expressions are interpreted, not compiled: the page's policy allows no eval.
const specs = JSON.parse(document.getElementById("specs").textContent);
const options = { ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true } };
const columns = matchMedia("(max-width: 40rem)").matches ? 2 : 3; // of a legend
const drawn = specs.map((spec, number) => {
  spec.config.legend.columns = columns;
  return vegaEmbed(`#chart-${number}`, spec, options);
});
// What is folded may have had no width yet.
for (const part of document.querySelectorAll("details")) part.addEventListener("toggle", () => dispatchEvent(new Event("resize")));
Promise.all(drawn).then(
  () => { document.documentElement.dataset.charts = "drawn"; },
  (error) => { document.documentElement.dataset.charts = "failed"; console.error(error); },
);
