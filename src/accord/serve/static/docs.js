// The OpenAPI description as a page, without anything from another host.
"use strict";

function typeOf(schema, all) {
  if (!schema) return "";
  if (schema.$ref) return typeOf(all[schema.$ref.split("/").pop()], all);
  if (schema.anyOf) return schema.anyOf.map((part) => typeOf(part, all)).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.type === "array") return `list of ${typeOf(schema.items, all)}`;
  const bounds = [["minimum", "from", ""], ["maximum", "to", ""], ["maxLength", "of at most", " characters"]]
    .filter(([name]) => schema[name] !== undefined).map(([name, before, after]) => `${before} ${schema[name]}${after}`);
  return [schema.type || "anything", ...bounds].join(" ");
}

// An answer with types instead of values.
function shape(schema, all, depth = 0) {
  if (!schema || depth > 6) return "…";
  if (schema.$ref) return shape(all[schema.$ref.split("/").pop()], all, depth + 1);
  if (schema.type === "array") return [shape(schema.items, all, depth + 1)];
  const part = schema.anyOf && schema.anyOf.find((one) => one.$ref || one.type === "array");
  if (part) return shape(part, all, depth + 1);
  if (schema.properties) {
    return Object.fromEntries(Object.entries(schema.properties).map(([name, one]) => [name, shape(one, all, depth + 1)]));
  }
  return typeOf(schema, all);
}

function example(path, method, parameters, body) {
  const query = parameters.filter((one) => one.required).map((one) => `${one.name}=…`).join("&");
  const url = `${location.origin}${path}${query ? `?${query}` : ""}`;
  if (method === "get") return `curl '${url}'`;
  const data = body ? ` -H 'Content-Type: application/json' -d '${JSON.stringify(body)}'` : "";
  return `curl -X ${method.toUpperCase()} '${url}'${data}`;
}

const SAMPLES = { UsersRequest: { users: ["…"], k: 20 }, HistoryRequest: { history: ["…"], k: 20 } };

function operation(path, method, about, all) {
  const parameters = about.parameters || [];
  const body = about.requestBody && about.requestBody.content["application/json"].schema;
  const name = body && body.$ref.split("/").pop();
  const fields = body ? Object.entries(all[name].properties).map(([field, one]) => ({
    name: field, required: (all[name].required || []).includes(field), schema: one, description: one.description,
  })) : [];
  const rows = [...parameters, ...fields].map((one) => make("tr", {},
    make("th", { scope: "row", text: one.name }),
    make("td", { text: one.required ? "required" : "" }),
    make("td", { text: typeOf(one.schema, all) }),
    make("td", { text: one.description || "" })));
  const head = make("tr", {}, ...["name", "", "type", "description"].map((text) => make("th", { scope: "col", text: text || "required?" })));
  const title = `${method.toUpperCase()} ${path}`;
  const content = (about.responses["200"] || {}).content || {};
  const answer = (content["application/json"] || {}).schema;
  return make("section", { class: "card", "aria-label": title },
    make("h2", {}, make("span", { class: "method", text: method.toUpperCase() }), make("code", { text: path })),
    make("p", { text: about.description || about.summary }),
    rows.length ? make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Parameters of ${title}` },
      make("table", {}, make("caption", { text: body ? "In the body, as JSON" : "In the query" }), make("thead", {}, head), make("tbody", {}, ...rows))) : "",
    make("pre", { tabindex: "0" }, make("code", { text: example(path, method, parameters, SAMPLES[name]) })),
    answer ? make("details", {}, make("summary", { text: "Answer" }),
      make("pre", { tabindex: "0" }, make("code", { text: JSON.stringify(shape(answer, all), null, 2) }))) : "");
}

async function begin() {
  try {
    const description = await ask("/openapi.json");
    $("description").textContent = description.info.description.replace(/\s+/g, " ").replaceAll("`", "");
    const all = description.components.schemas;
    $("operations").replaceChildren(...Object.entries(description.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, about]) => operation(path, method, about, all))));
  } catch (problem) {
    $("problem").textContent = problem.message;
    $("problem").hidden = false;
  }
}

begin();
