// Shared by both pages: requests to the API, and elements. Ids and titles only ever become text.
"use strict";

const $ = (id) => document.getElementById(id);

function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

class ApiError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

async function ask(path, parameters = {}, body = null) {
  const query = new URLSearchParams(parameters).toString();
  const options = { headers: {} };
  const token = sessionStorage.getItem("accord-token");
  if (token) options.headers.Authorization = `Bearer ${token}`;
  if (body) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(query ? `${path}?${query}` : path, options);
  } catch {
    throw new ApiError("unreachable", "The server does not answer.");
  }
  const content = await response.json().catch(() => ({}));
  if (!response.ok) {
    const error = content.error || {};
    throw new ApiError(error.code, error.message || `The server answered ${response.status}.`);
  }
  return content;
}

const nameOf = (thing) => thing.title || `item ${thing.item}`;
const percent = (share) => `${share > 0 && share < 0.1 ? (100 * share).toFixed(1) : Math.round(100 * share)}%`;
const chance = (share) => (share > 0.99 && share < 1 ? "over 99%" : share < 0.01 && share > 0 ? "under 1%" : percent(share));
const thousands = (number) => number.toLocaleString("en");

// A bar next to its figure. A screen reader reads the figure.
function bar(share) {
  const track = make("span", { class: "bar", "aria-hidden": "true" });
  const fill = make("span", { class: "fill" });
  fill.style.width = percent(share);
  track.append(fill);
  return track;
}

// Waits until typing stops; answers to earlier queries are dropped.
function lookup(input, find, show, onProblem) {
  let timer = 0;
  let latest = 0;
  const now = async () => {
    const mine = ++latest;
    try {
      const matches = await find(input.value);
      if (mine === latest) show(matches);
    } catch (problem) {
      if (mine === latest) onProblem(problem);
    }
  };
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(now, 150);
  });
  return now;
}
