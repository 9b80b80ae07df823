// The recommendations view: find a user, look at the history, change it, and see how the recommendations change.
"use strict";

const LENGTH = 20;
const SHOWN = 40; // items of a history before “Show more”
let about = null;
let person = null; // {user, history: [items], used: Set of places, added: [items], base: {item: rank}}
let turn = 0; // answers to an earlier turn are dropped

function showProblem(problem) {
  $("problem").textContent = problem.message;
  $("problem").hidden = false;
  if (problem.code === "unauthorized") $("token-form").hidden = false;
}

function hideProblem() {
  $("problem").hidden = true;
}

// --- users

const showUsers = lookup(
  $("user-query"),
  (query) => ask("/v1/users", { q: query, limit: 12 }),
  (matches) => {
    hideProblem();
    const buttons = matches.users.map((entry) =>
      make("li", {}, make("button", {
        text: entry.user, class: "chip", onclick: () => choose(entry.user),
        "aria-label": `User ${entry.user}, ${entry.interactions} interactions`,
      })));
    $("user-matches").replaceChildren(...(buttons.length ? buttons : [make("li", { text: "No matching user.", class: "quiet" })]));
  },
  showProblem,
);

$("user-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const id = $("user-query").value.trim();
  if (id) choose(id);
});

$("new-user").addEventListener("click", () => {
  location.hash = "#lists";
  start(null, []);
});
$("reset").addEventListener("click", () => start(person.user, person.history));

// The address names the user, so that it can be sent and found again.
function choose(user) {
  const hash = `#${new URLSearchParams({ user })}`;
  if (location.hash === hash) open(user);
  else location.hash = hash;
}

async function open(user) {
  hideProblem();
  try {
    const { user: id, items } = await ask("/v1/history", { user });
    await start(id, items);
  } catch (problem) {
    if (problem.code === "unknown_user") await start(user, [], true);
    else showProblem(problem);
  }
}

async function start(user, history, unknown = false) {
  person = { user, history, unknown, used: new Set(history.keys()), added: [], base: null, shown: SHOWN };
  $("person").hidden = false;
  $("example").hidden = $("hint").hidden = true;
  $("person-heading").textContent =
    user === null ? "New user" : unknown ? `User ${user}, not in the training data` : `User ${user}`;
  $("item-matches").replaceChildren();
  $("item-query").value = "";
  showHistory();
  await refresh();
  $("person-heading").focus();
}

// --- history

const changed = () => person.added.length > 0 || person.used.size < person.history.length;
const usedItems = () => [
  ...person.history.filter((_, place) => person.used.has(place)),
  ...person.added,
];

function sureness({ p_real: sure }) {
  if (sure === null) return [];
  return [make("span", { class: "sure" }, bar(sure), make("span", { class: "figure", text: `${chance(sure)} real` }))];
}

function showHistory() {
  const places = [...person.history.keys()];
  if ($("order").value === "noisiest") places.reverse();
  const rows = places.slice(0, person.shown).map((place) => {
    const entry = person.history[place];
    const box = make("input", {
      type: "checkbox",
      onchange: (event) => {
        if (event.target.checked) person.used.add(place);
        else person.used.delete(place);
        refresh();
      },
    });
    box.checked = person.used.has(place);
    return make("li", {}, make("label", {}, box, make("span", { class: "title", text: nameOf(entry) }), ...sureness(entry)));
  });
  const added = person.added.map((entry) =>
    make("li", { class: "added" },
      make("span", { class: "title", text: nameOf(entry) }),
      make("span", { class: "badge", text: "added" }),
      make("button", {
        text: "Remove", class: "plain", "aria-label": `Remove ${nameOf(entry)}`,
        onclick: () => {
          person.added = person.added.filter((other) => other !== entry);
          showHistory();
          refresh();
        },
      })));
  $("history").replaceChildren(...added, ...rows);
  const more = person.history.length - person.shown;
  $("more").hidden = more <= 0;
  $("more").textContent = `Show ${thousands(more)} more`;
  const notes = [];
  if (!person.history.length) notes.push("Nothing yet. Add items to see what would be recommended.");
  else {
    notes.push(`${thousands(person.history.length)} items. Untick one to leave it out.`);
    if (about.has_p_real) notes.push("Percentages: the model’s probability of a real preference.");
    else notes.push("This model gives no probability of a real preference.");
  }
  $("history-note").textContent = notes.join(" ");
  $("reset").hidden = !changed();
  $("order-label").hidden = person.history.length < 2 || !sureness(person.history[0]).length;
}

$("order").addEventListener("change", showHistory);
$("more").addEventListener("click", () => {
  person.shown = Infinity;
  showHistory();
  $("history").querySelectorAll("input")[SHOWN]?.focus();
});

const showItems = lookup(
  $("item-query"),
  (query) => (query.trim() ? ask("/v1/items", { q: query, limit: 8 }) : { items: [] }),
  (matches) => {
    hideProblem();
    const used = new Set(usedItems().map((entry) => String(entry.item)));
    const rows = matches.items.map((entry) =>
      make("li", {}, make("button", {
        class: "plain", text: nameOf(entry), disabled: used.has(String(entry.item)),
        onclick: () => add(entry),
      })));
    if (!rows.length && $("item-query").value.trim()) rows.push(make("li", { text: "No matching item.", class: "quiet" }));
    $("item-matches").replaceChildren(...rows);
  },
  showProblem,
);

function add(entry) {
  const place = person.history.findIndex((other) => other.item === entry.item);
  if (place >= 0) person.used.add(place);
  else person.added.unshift(entry);
  $("item-query").value = "";
  $("item-matches").replaceChildren();
  showHistory();
  refresh();
  $("item-query").focus();
}

$("item-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const first = $("item-matches").querySelector("button:not([disabled])");
  if (first) first.click();
  else showItems();
});

// --- recommendations

const fromHistory = (items) =>
  ask("/v1/recommendations/history", {}, { history: items.slice(0, 1000).map((entry) => entry.item), k: LENGTH, why: true });

async function refresh() {
  const mine = ++turn;
  $("reset").hidden = !changed();
  $("recommended").setAttribute("aria-busy", "true");
  try {
    let list;
    if (!changed() && person.user !== null) {
      list = await ask("/v1/recommendations", { user: person.user, k: LENGTH, why: true });
    } else {
      if (!person.base) {
        const before = await fromHistory(person.history);
        person.base = new Map(before.items.map((entry) => [entry.item, entry.rank]));
      }
      list = await fromHistory(usedItems());
    }
    if (mine === turn) showList(list);
  } catch (problem) {
    if (mine === turn) showProblem(problem);
  } finally {
    if (mine === turn) $("recommended").setAttribute("aria-busy", "false");
  }
}

function explained(source, agrees) {
  if (source === "model") return "What the model recommends to this user." + (agrees ? " A model agrees with an item that is in its top 20." : "");
  if (source === "popularity") return "The most popular items: this user has no history that the model can use.";
  return changed() && person.history.length
    ? "Recommendations for the changed history. Badges show what moved compared with the original history."
    : "Recommendations for this history.";
}

function mark(entry) {
  if (!changed() || !person.base || !person.history.length) return [];
  const before = person.base.get(entry.item);
  if (before === undefined) return [make("span", { class: "badge new", text: "new" })];
  if (before === entry.rank) return [];
  const up = before > entry.rank;
  return [make("span", {
    class: "badge", text: `${up ? "▲" : "▼"} ${Math.abs(before - entry.rank)}`,
    role: "img", "aria-label": `${up ? "up" : "down"} ${Math.abs(before - entry.rank)}`,
  })];
}

const isAgreed = (entry) => Boolean(entry.agreement) && entry.agreement.of > 1;

function agreed(opinion) {
  const places = Object.entries(opinion.places).sort((one, other) => one[1] - other[1]);
  const words = places.map(([member, place]) => `${member} ${thousands(place)}`);
  return `${opinion.agree} of ${opinion.of} models agree; ranks: ${words.join(", ")}`;
}

const because = (entry) =>
  entry.why && entry.why.length ? [make("p", { class: "why", text: `because of ${entry.why.map(nameOf).join(" · ")}` })] : [];

function showList(list) {
  hideProblem();
  $("source").textContent = explained(list.source, list.items.some(isAgreed));
  $("recommended").replaceChildren(...list.items.map((entry) => {
    const place = make("ul", { class: "matches", hidden: true, "aria-label": `Items similar to ${nameOf(entry)}` });
    const similar = make("button", {
      class: "plain", text: "Similar", "aria-expanded": "false", "aria-label": `Items similar to ${nameOf(entry)}`,
      onclick: () => toggleSimilar(entry, similar, place),
    });
    return make("li", {},
      make("div", { class: "line" }, make("span", { class: "title", text: nameOf(entry) }), ...mark(entry), similar),
      ...because(entry),
      isAgreed(entry) ? make("p", { class: "why", text: agreed(entry.agreement) }) : "",
      place);
  }));
  $("status").textContent = `${list.items.length} recommendations shown.`;
}

async function toggleSimilar(entry, button, place) {
  place.hidden = !place.hidden;
  button.setAttribute("aria-expanded", String(!place.hidden));
  if (place.hidden || place.childElementCount) return;
  try {
    const similar = await ask("/v1/similar", { item: entry.item, k: 5 });
    place.replaceChildren(...similar.items.map((other) => make("li", { text: nameOf(other) })));
  } catch (problem) {
    showProblem(problem);
  }
}

// --- before a user is chosen

async function showExample() {
  if (person || location.hash.startsWith("#user=")) return;
  const { users } = await ask("/v1/users", { limit: 1 });
  if (!users.length || person) return;
  const [{ user, interactions }] = users;
  const list = await ask("/v1/recommendations", { user, k: 3, why: true });
  if (person) return; // a user was chosen meanwhile
  $("example-heading").textContent = `Example: recommendations for user ${user}, who has ${thousands(interactions)} items`;
  $("example-list").replaceChildren(...list.items.map((entry) =>
    make("li", {}, make("span", { class: "title", text: nameOf(entry) }), ...because(entry))));
  $("example-more").textContent = `Show user ${user}`;
  $("example-more").onclick = () => choose(user);
  $("example").hidden = false;
}

// --- the address

function route() {
  const user = new URLSearchParams(location.hash.slice(1)).get("user");
  if (about && user && user !== String(person?.user)) open(user);
}

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("accord-token", $("token").value);
  $("token-form").hidden = true;
  begin();
});

async function begin() {
  try {
    about = await ask("/v1/about");
  } catch (problem) {
    showProblem(problem);
    return;
  }
  hideProblem();
  $("about").textContent =
    `${about.dataset} · ${about.model}${about.method === "none" ? "" : ` + ${about.method}`} · ` +
    `${thousands(about.users)} users, ${thousands(about.items)} items`;
  route();
  await showUsers();
  await showExample().catch(showProblem);
}

window.addEventListener("hashchange", route);
begin();
