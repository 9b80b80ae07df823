// The audit view: the verdict, the health of the log, where the noise is, and the interactions of a user.
"use strict";

let auditShown = false;

async function showAudit(place, showProblem) {
  if (auditShown) return;
  try {
    const { summary, titles } = await ask("/v1/audit");
    auditShown = true;
    place.replaceChildren(make("h1", { text: "Audit of the log" }), ...auditSections(summary, titles, showProblem));
  } catch (problem) {
    showProblem(problem);
  }
}

const rate = (low, high) =>
  low === null || low === undefined || percent(low) === percent(high) ? "" : ` (${percent(low)} to ${percent(high)})`;

function section(title, ...content) {
  return make("section", { class: "card", "aria-label": title }, make("h2", { text: title }), ...content);
}

function folded(title, ...content) {
  return make("details", {}, make("summary", {}, ...(typeof title === "string" ? [title] : title)), ...content);
}

function auditTable(caption, columns, rows, hideCaption = false) {
  const head = make("tr", {}, ...columns.map((name) => make("th", { text: name, scope: "col" })));
  const body = rows.map((cells) => make("tr", {}, ...cells.map((cell, place) => {
    const kind = place ? "td" : "th";
    const options = place ? {} : { scope: "row" };
    return typeof cell === "object" ? make(kind, options, ...cell) : make(kind, { ...options, text: String(cell) });
  })));
  const table = make("table", {}, make("caption", { text: caption, class: hideCaption ? "hidden" : "" }), make("thead", {}, head), make("tbody", {}, ...body));
  const place = make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, table);
  measure.observe(place);
  return place;
}

const noiseCell = (row) => [bar(row.noise_rate, row.low, row.high), ` ${percent(row.noise_rate)}`];
const sureCell = (row) => [bar(row.p_real, row.low, row.high), ` ${chance(row.p_real)}${rate(row.low, row.high)}`];

function auditSections(summary, titles, showProblem) {
  const noise = summary.noise || {};
  const titled = (row) => titles[String(row.item)] || `item ${row.item}`;
  const pairs = (rows) => rows.map((row) => [String(row.user), titled(row), sureCell(row)]);
  const sections = [];

  const verdict = summary.verdict ? summary.verdict.sentence : "There is no test data, so this audit cannot say whether denoising helps.";
  const figures = [];
  if (noise.rate !== undefined) {
    figures.push(make("p", { class: "quiet",
      text: `${percent(noise.rate)} of the log is probably noise${rate(noise.low, noise.high)}; ${thousands(noise.suspects)} of ${thousands(summary.data.interactions)} interactions are more likely noise than not.` }));
  }
  sections.push(section("Verdict", make("p", { class: "verdict", text: verdict }), ...figures));

  const checks = (summary.health || {}).findings || [];
  const findings = checks.filter((finding) => finding.level !== "fine").map((finding) => {
    const title = [make("span", { class: "badge", text: finding.level }), make("strong", { text: ` ${finding.title}` })];
    const more = [make("p", { class: "quiet", text: finding.advice || "" })];
    if ((finding.examples || []).length) more.push(make("p", { class: "quiet", text: `For example: ${finding.examples.slice(0, 3).join("; ")}` }));
    return finding.level === "serious"
      ? make("li", { class: "finding serious" }, make("p", {}, ...title), ...more)
      : make("li", { class: "finding notice" }, folded(title, ...more));
  });
  const fine = checks.filter((finding) => finding.level === "fine").map((finding) => finding.title);
  if (checks.length) {
    sections.push(section("Health of the log", make("ul", { class: "findings" }, ...findings),
      make("p", { class: "quiet fine", text: fine.length ? `Also checked, and fine: ${fine.join("; ")}.` : "" })));
  }

  const groups = [["by_popularity", "Noise by popularity of the item"], ["by_activity", "Noise by activity of the user"], ["by_time", "Noise over time"]]
    .filter(([name]) => (noise[name] || []).length)
    .map(([name, title]) => folded(title, auditTable(title, ["group", "interactions", "noise"],
      noise[name].map((row) => [row.label, thousands(row.interactions), noiseCell(row)]), true)));
  for (const [name, title] of [["noisiest", "Most probably noise"], ["surest", "Most probably real"]]) {
    if ((noise[name] || []).length) groups.push(folded(title, auditTable(title, ["user", "item", "probability real"], pairs(noise[name].slice(0, 10)), true)));
  }
  sections.push(auditOfUser(showProblem));
  if (groups.length) sections.push(section("Where the noise is", ...groups));
  return sections;
}

function auditOfUser(showProblem) {
  const place = make("div", { "aria-live": "polite" });
  const input = make("input", { id: "audit-user", type: "search", autocomplete: "off" });
  const form = make("form", { class: "row", role: "search", onsubmit: async (event) => {
    event.preventDefault();
    try {
      const answer = await ask("/v1/audit/interactions", { user: input.value.trim(), limit: 50 });
      const rows = answer.interactions.map((row) => [nameOf(row), sureCell(row)]);
      place.replaceChildren(rows.length
        ? auditTable(`Interactions of user ${input.value.trim()}, most probable noise first (${rows.length} of ${answer.count})`, ["item", "probability real"], rows)
        : make("p", { text: "The audit has no interactions of this user." }));
    } catch (problem) {
      if (problem.code !== "unknown_user") showProblem(problem);
      else place.replaceChildren(make("p", { text: "No matching user." }));
    }
  } }, input, make("button", { text: "Show" }));
  return section("One user", make("label", { for: "audit-user", text: "A user’s id" }), form, place);
}
