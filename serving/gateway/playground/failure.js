// A failure in words: what was expected, what was found, and what to do; at its field, where one is meant.

import { element, find, freshId } from "./dom.js";
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
  hideFailure();
  const input = inputOf(error.param);
  const box = input ? boxAt(input) : find("failure");
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
  if (input) input.focus();
  box.scrollIntoView({ block: "nearest" });
  hideLatency();
}

export function hideFailure() {
  find("failure").hidden = true;
  find("failure").replaceChildren();
  for (const input of document.querySelectorAll("[aria-invalid]")) {
    const others = (input.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => !find(id)?.matches(".failure"));
    input.removeAttribute("aria-invalid");
    if (others.join("")) input.setAttribute("aria-describedby", others.join(" "));
    else input.removeAttribute("aria-describedby");
  }
  for (const box of document.querySelectorAll(".failure.at-field")) box.remove();
}

// The input that fills a field of a request, or a part of one: `inputs.image.0` is of `inputs.image`, or else of `inputs`.
function inputOf(param) {
  const inputs = [...find("question-body").querySelectorAll("[data-param]")];
  for (let name = param; name; name = name.slice(0, Math.max(name.lastIndexOf("."), 0))) {
    const input = inputs.find((one) => one.dataset.param === name);
    if (input) return input;
  }
  return null;
}

function boxAt(input) {
  const box = element("div", { className: "failure at-field", role: "alert", id: freshId("failure") });
  const hidden = input.closest("details");
  if (hidden) hidden.open = true;
  input.closest(".field").append(box);
  input.setAttribute("aria-invalid", "true");
  input.setAttribute("aria-describedby", [box.id, input.getAttribute("aria-describedby")].filter(Boolean).join(" "));
  return box;
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
