// A text → another text, token by token; each token lights what it was read off, and each source token what read it.

import { Alignment } from "./alignment.js";
import { copyButtons } from "./copy.js";
import { element, field, showAnswer } from "./dom.js";
import { Keeper } from "./keep.js";
import { showLatency, Stopwatch } from "./latency.js";
import { Runner } from "./run.js";
import { hasBeams, Sampling } from "./sampling.js";
import { stream } from "./server.js";

export function translateView(card, question, answer, leaving) {
  const text = element("textarea", { rows: 2, value: card.example.inputs?.text ?? "", spellcheck: false });
  const sampling = new Sampling(card);
  const stop = element("button", { type: "button", hidden: true, onclick: () => runner.stop() }, "Stop");
  const keeper = new Keeper(card);
  const request = () => {
    const options = sampling.values();
    if (!options) return null;
    const explain = shown.explains && !hasBeams(options);
    return { path: "v1/translate", body: { model: card.id, input: text.value, ...options, explain } };
  };
  const form = element("form", { onsubmit: (event) => event.preventDefault() }, field("Text", text, "", "input"), sampling.element,
    element("div", { className: "tools" }, element("button", { className: "primary" }, "Translate"), stop));
  const runner = new Runner(leaving, (busy) => (stop.hidden = !busy));
  const shown = new Alignment(card);
  const run = () => {
    const asked = request();
    if (asked) runner.run((signal) => translate(asked, { text: text.value, options: sampling.values() }, shown, keeper, signal));
  };
  form.addEventListener("submit", () => {
    showAnswer();
    run();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  question.append(form, copyButtons(request));
  answer.append(shown.element);
  const wasAsked = keeper.restore((last) => {
    text.value = last.text;
    sampling.set(last.options);
    shown.clear();
    for (const said of last.events) shown.add(said);
    shown.done();
    showLatency(last.latency);
  });
  if (!wasAsked && text.value) run();
}

async function translate({ path, body }, question, shown, keeper, signal) {
  shown.clear();
  const watch = new Stopwatch();
  const events = [];
  try {
    await stream(path, body, signal, (said) => {
      if (said.usage) return;
      events.push(said);
      watch.token(said.token_ids.length);
      shown.add(said);
    });
  } finally {
    watch.done();
    if (events.length) keeper.keep({ ...question, events, latency: watch.rows });
  }
  watch.show();
  shown.done();
}
