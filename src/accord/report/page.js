"use strict";
// Tables wider than the page say that they scroll. Folded parts open when they are linked to or printed.
const measure = new ResizeObserver((entries) => {
  for (const { target } of entries) target.classList.toggle("scrolls", target.scrollWidth > target.clientWidth);
});
for (const place of document.querySelectorAll(".scroll")) measure.observe(place);
function openLinked() {
  const part = document.getElementById(location.hash.slice(1))?.closest("details");
  if (part) part.open = true;
}
addEventListener("hashchange", openLinked);
openLinked();
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const part of closed) part.open = true;
});
addEventListener("afterprint", () => { for (const part of closed) part.open = false; });
