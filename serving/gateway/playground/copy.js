// A request as a command of curl and as a program in Python, which ask the same without this page.

import { element, freshId } from "./dom.js";
import { key } from "./server.js";

const KEY = "ATTENDANT_API_KEY"; // the variable that holds the key: the key itself is never copied

// JSON in which nothing ends a quotation, expands, or shows other than it is: such characters stand as \u escapes.
function safeJson(body) {
  const lines = Object.entries(body).map(([name, value]) => `  ${JSON.stringify(name)}: ${JSON.stringify(value)}`);
  return `{\n${lines.join(",\n")}\n}`.replace(/['!\u2028\u2029]|[^\P{C}\n]/gu, (character) =>
    Array.from({ length: character.length }, (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""));
}

const address = (path) => new URL(path, document.baseURI).href.replaceAll("'", "%27");

export function asCurl({ path, body }) {
  const authorised = key.get() ? ` \\\n  --header "Authorization: Bearer $${KEY}"` : "";
  return `curl --silent --show-error --fail-with-body '${address(path)}'${authorised} --json @- <<'END'\n${safeJson(body)}\nEND\n`;
}

export function asPython({ path, body }) {
  const authorised = key.get() ? `, "Authorization": f"Bearer {os.environ['${KEY}']}"` : "";
  return `import json
${key.get() ? "import os\n" : ""}from urllib.request import Request, urlopen

BODY = r'''
${safeJson(body)}
'''
HEADERS = {"Content-Type": "application/json"${authorised}}
with urlopen(Request('${address(path)}', BODY.encode(), HEADERS)) as response:
    print(json.dumps(json.load(response), ensure_ascii=False, indent=2))
`;
}

// `request` returns the path and the body of what would be asked now, or null where that cannot be.
export function copyButtons(request) {
  const said = element("p", { className: "hint", role: "status" });
  const text = element("textarea", { id: freshId("copied"), rows: 8, readOnly: true, spellcheck: false, hidden: true, "aria-label": "What is copied" });
  const copy = async (name, render) => {
    const asked = request();
    if (!asked) {
      said.textContent = "There is nothing to ask yet: fill in the fields.";
      return;
    }
    text.value = render(asked);
    text.hidden = false;
    text.select();
    const variable = key.get() ? ` It reads the key from ${KEY}.` : "";
    try {
      await navigator.clipboard.writeText(text.value);
      said.textContent = `${name} is copied.${variable}`;
    } catch {
      said.textContent = `${name} is selected; copy it by hand.${variable}`; // a browser lets only secure pages copy
    }
  };
  return element("div", { className: "copy" },
    element("div", { className: "tools" },
      element("button", { type: "button", onclick: () => copy("The command", asCurl) }, "Copy as curl"),
      element("button", { type: "button", onclick: () => copy("The program", asPython) }, "Copy as Python")),
    said, text);
}
