// The routes of openapi.json as a page to read: what each takes, field by field, and what it answers.

import { element, find } from "./dom.js";
import { read } from "./server.js";

const NAME = /^#\/components\/schemas\/(.+)$/;
const LIMITS = [["minimum", "≥"], ["exclusiveMinimum", ">"], ["maximum", "≤"], ["exclusiveMaximum", "<"]];

class Reference {
  constructor(description) {
    this.schemas = description.components?.schemas ?? {};
    this.anchors = new Map(Object.keys(this.schemas).map((name) => [name, `schema-${name}`]));
  }

  // A type in words, with a link where it is described below.
  type(schema) {
    const name = NAME.exec(schema?.$ref ?? "")?.[1];
    if (name) return this.anchors.has(name) ? element("a", { href: `#${this.anchors.get(name)}` }, name) : name;
    const several = schema?.anyOf ?? schema?.oneOf ?? schema?.allOf;
    if (several) return joined(several.filter((one) => one.type !== "null").map((one) => this.type(one)), " or ");
    if (schema?.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
    if ("const" in (schema ?? {})) return JSON.stringify(schema.const);
    if (schema?.type === "array") return joined(["list of ", this.type(schema.items)]);
    const limits = LIMITS.filter(([limit]) => limit in (schema ?? {})).map(([limit, sign]) => `${sign} ${schema[limit]}`);
    return [schema?.type ?? "any", ...limits].join(" ");
  }

  fields(schema) {
    const required = schema.required ?? [];
    const rows = Object.entries(schema.properties ?? {}).map(([name, one]) => element("tr", {},
      element("th", { scope: "row" }, name),
      element("td", {}, this.type(one)),
      element("td", {}, required.includes(name) ? "required" : "default" in one ? JSON.stringify(one.default) : ""),
      element("td", {}, one.description ?? "")));
    if (!rows.length) return element("p", { className: "hint" }, this.type(schema));
    const head = element("tr", {}, ...["Field", "Type", "Default", "Meaning"].map((name) => element("th", { scope: "col" }, name)));
    return element("div", { className: "scroll", tabIndex: 0, role: "group", "aria-label": "Fields" },
      element("table", { className: "fields-table" }, element("thead", {}, head), element("tbody", {}, ...rows)));
  }

  // Of a body or an answer: its types of content, and the fields of the first.
  content(content) {
    return Object.entries(content ?? {}).map(([kind, { schema, itemSchema }]) => {
      const name = NAME.exec(schema?.$ref ?? "")?.[1];
      const fields = schema ? this.schemas[name] ?? schema : null;
      return element("div", {}, element("p", { className: "hint" }, kind, itemSchema ? ", a stream of events" : ""),
        fields && kind.includes("json") ? element("details", {}, element("summary", {}, this.title(name, schema)), this.fields(fields)) : null);
    });
  }

  title(name, schema) {
    return name ?? schema.title ?? "its fields";
  }

  operation(method, path, about, id) {
    const parameters = (about.parameters ?? []).map((one) => [one.name, { description: `in the ${one.in}`, ...one.schema }]);
    const query = { properties: Object.fromEntries(parameters), required: (about.parameters ?? []).filter((one) => one.required).map((one) => one.name) };
    const answers = Object.entries(about.responses ?? {}).map(([status, one]) =>
      element("div", {}, element("p", {}, element("strong", {}, status), ` ${one.description ?? ""}`), ...this.content(one.content)));
    return element("section", { className: "card route", id, "aria-labelledby": `${id}-title` },
      element("h3", { id: `${id}-title` }, element("span", { className: "method" }, method.toUpperCase()), ` ${path}`),
      element("p", {}, about.description ?? about.summary ?? ""),
      parameters.length ? this.fields(query) : null,
      about.requestBody ? element("h4", {}, "Request") : null, ...this.content(about.requestBody?.content),
      element("h4", {}, "Answers"), ...answers);
  }
}

function joined(parts, between = "") {
  const all = element("span", {});
  parts.forEach((part, at) => all.append(...(at ? [between, part] : [part])));
  return all;
}

function show(description) {
  const reference = new Reference(description);
  find("lead").textContent = `${description.info.title} ${description.info.version}: ${description.info.summary ?? ""}`;
  const links = [];
  const sections = [];
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, about] of Object.entries(methods)) {
      const id = `${method}-${path}`.replace(/[^a-z0-9]+/gi, "-");
      links.push(element("a", { href: `#${id}` }, `${method.toUpperCase()} ${path}`));
      sections.push(reference.operation(method, path, about, id));
    }
  }
  const schemas = Object.entries(reference.schemas).map(([name, schema]) => element("section", { className: "card route", id: reference.anchors.get(name) },
    element("h3", {}, name), element("p", {}, schema.description ?? ""), reference.fields(schema)));
  find("contents").replaceChildren(...links);
  find("routes").replaceChildren(element("h2", {}, "Routes"), ...sections, element("h2", {}, "Types"), ...schemas);
  if (location.hash) find(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

async function start() {
  try {
    show(await read("openapi.json"));
  } catch (error) {
    const box = find("failure");
    const remedy = error.status === 401 ? "Enter the key on the playground, in this tab; then come back." : error.remedy;
    box.replaceChildren(element("strong", {}, error.status === 401 ? "A key is needed" : "The description cannot be read"),
      element("p", {}, `${error.found ?? error.message} ${remedy ?? ""}`));
    box.hidden = false;
  }
}

start();
