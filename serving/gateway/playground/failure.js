// A failure in words: what was expected, what was found, and what to do.

import { element, find } from "./dom.js";
import { hideLatency } from "./latency.js";

const TITLES = {
  0: "No connection",
  401: "A key is needed",
  404: "Not found",
  408: "Out of time",
  413: "Too large",
  429: "Busy",
  503: "Not available",
};

export function showFailure(error, again) {
  if (error.name === "AbortError") return;
  const box = find("failure");
  const rows = [["Expected", error.expected], ["Found", error.found ?? error.message], ["What to do", error.remedy]];
  const list = element("dl", {});
  for (const [name, text] of rows.filter(([, text]) => text)) {
    list.append(element("div", {}, element("dt", {}, name), element("dd", {}, sentence(text))));
  }
  const button = again ? element("button", { type: "button", onclick: again }, "Try again") : null;
  const title = TITLES[error.status] ?? (error.status >= 500 ? "The server failed" : "This was not understood");
  const id = error.requestId ? element("p", { className: "hint" }, `Request ${error.requestId}`) : null;
  box.replaceChildren(element("strong", {}, title), list, ...[button, id].filter(Boolean));
  box.hidden = false;
  box.scrollIntoView({ block: "nearest" });
  hideLatency();
}

export function hideFailure() {
  find("failure").hidden = true;
  find("failure").replaceChildren();
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
