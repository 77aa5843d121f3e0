// Texts → vectors: how alike each two of them are.

import { copyButtons } from "./copy.js";
import { element, field } from "./dom.js";
import { Keeper } from "./keep.js";
import { showLatency, Stopwatch } from "./latency.js";
import { Runner } from "./run.js";
import { ask } from "./server.js";

const SAMPLES = ["A cat sat on the mat.", "A kitten lay on the rug.", "Shares fell on Tuesday."];

export function embedView(card, question, answer, leaving) {
  const text = element("textarea", { rows: 5, value: SAMPLES.join("\n") });
  const form = element("form", {}, field("Texts", text, "One a line", "input"),
    element("div", { className: "tools" }, element("button", { className: "primary" }, "Compare")));
  const note = element("p", { className: "note", role: "status" }, "How alike the texts are appears here.");
  const shown = element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Cosines", hidden: true });
  const runner = new Runner(leaving);
  const keeper = new Keeper(card);
  const request = () => {
    const input = text.value.split("\n").filter((line) => line.trim());
    return input.length ? { path: "v1/embeddings", body: { model: card.id, input } } : null;
  };
  const show = ({ texts, cosines, width, latency }) => {
    note.textContent = `Cosines of vectors with ${width} numbers: 1 means the same direction.`;
    shown.hidden = false;
    shown.replaceChildren(table(texts, cosines));
    showLatency(latency);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const asked = request();
    if (!asked) return;
    runner.run(async (signal) => {
      const watch = new Stopwatch();
      const found = await ask(asked.path, asked.body, signal);
      const vectors = found.data.map((one) => unit(one.embedding));
      const answered = {
        texts: asked.body.input,
        cosines: vectors.map((one) => vectors.map((other) => dot(one, other))),
        width: vectors[0].length,
        latency: [["Answer", watch.done(), "ms"], ["Tokens", found.usage.prompt_tokens, ""]],
      };
      show(answered);
      keeper.keep(answered);
    });
  });
  question.append(form, copyButtons(request));
  answer.append(note, shown);
  keeper.restore((last) => {
    text.value = last.texts.join("\n");
    show(last);
  });
}

const dot = (one, other) => one.reduce((sum, value, at) => sum + value * other[at], 0);

function unit(vector) {
  const length = Math.sqrt(dot(vector, vector)) || 1;
  return vector.map((value) => value / length);
}

function table(texts, cosines) {
  const head = element("tr", {}, element("td"), ...texts.map((_, at) => element("th", { scope: "col" }, `${at + 1}`)));
  const rows = cosines.map((row, at) => element("tr", {},
    element("th", { scope: "row" }, `${at + 1}. ${texts[at]}`),
    ...row.map((cosine) => element("td", {}, cosine.toFixed(3)))));
  return element("table", { className: "cosines" }, element("thead", {}, head), element("tbody", {}, ...rows));
}
