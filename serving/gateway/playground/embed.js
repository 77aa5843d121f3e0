// Texts → vectors: how alike each two of them are.

import { element, field } from "./dom.js";
import { showLatency, Stopwatch } from "./latency.js";
import { Runner } from "./run.js";
import { ask } from "./server.js";

const SAMPLES = ["A cat sat on the mat.", "A kitten lay on the rug.", "Shares fell on Tuesday."];

export function embedView(card, question, answer, leaving) {
  const text = element("textarea", { rows: 5, value: SAMPLES.join("\n") });
  const form = element("form", {}, field("Texts", text, "One a line"),
    element("div", { className: "tools" }, element("button", { className: "primary" }, "Compare")));
  const note = element("p", { className: "note", role: "status" }, "How alike the texts are appears here.");
  const shown = element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Cosines", hidden: true });
  const runner = new Runner(leaving);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const texts = text.value.split("\n").filter((line) => line.trim());
    if (!texts.length) return;
    runner.run(async (signal) => {
      const watch = new Stopwatch();
      const found = await ask("v1/embeddings", { model: card.id, input: texts }, signal);
      showLatency([["Answer", watch.done(), "ms"], ["Tokens", found.usage.prompt_tokens, ""]]);
      const vectors = found.data.map((one) => unit(one.embedding));
      note.textContent = `Cosines of vectors with ${vectors[0].length} numbers: 1 means the same direction.`;
      shown.hidden = false;
      shown.replaceChildren(table(texts, vectors));
    });
  });
  question.append(form);
  answer.append(note, shown);
}

const dot = (one, other) => one.reduce((sum, value, at) => sum + value * other[at], 0);

function unit(vector) {
  const length = Math.sqrt(dot(vector, vector)) || 1;
  return vector.map((value) => value / length);
}

function table(texts, vectors) {
  const head = element("tr", {}, element("td"), ...texts.map((_, at) => element("th", { scope: "col" }, `${at + 1}`)));
  const rows = vectors.map((vector, at) => element("tr", {},
    element("th", { scope: "row" }, `${at + 1}. ${texts[at]}`),
    ...vectors.map((other) => element("td", {}, dot(vector, other).toFixed(3)))));
  return element("table", { className: "cosines" }, element("thead", {}, head), element("tbody", {}, ...rows));
}
