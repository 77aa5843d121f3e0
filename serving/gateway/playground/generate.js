// A prompt → its continuation, token by token.

import { element, field, showAnswer } from "./dom.js";
import { Stopwatch } from "./latency.js";
import { Runner } from "./run.js";
import { Sampling } from "./sampling.js";
import { stream } from "./server.js";

const STANDARD = { temperature: 0.6, max_tokens: 64 };

export function generateView(card, question, answer, leaving) {
  const inIds = card.token_ids_only;
  const example = inIds ? (card.example.inputs?.input_ids ?? [0]).join(" ") : (card.example.inputs?.text ?? "");
  const text = element("textarea", { rows: 4, value: example, spellcheck: false });
  const sampling = new Sampling(card, STANDARD);
  sampling.element.open = true;
  const stop = element("button", { type: "button", hidden: true, onclick: () => runner.stop() }, "Stop");
  const form = element("form", {}, inIds ? field("Token ids", text, NO_TOKENIZER) : field("Prompt", text), sampling.element,
    element("div", { className: "tools" }, element("button", { className: "primary" }, "Continue"), stop));
  const prompt = element("span", { className: "prompt" });
  const said = element("span", { "aria-live": "polite" });
  const shown = element("p", { className: "prose" }, prompt, said);
  const ending = element("p", { className: "note", role: "status" }, "The continuation appears here as it is written.");
  const runner = new Runner(leaving, (busy) => {
    stop.hidden = !busy;
    said.setAttribute("aria-busy", String(busy));
  });
  const run = () => {
    const options = sampling.values();
    if (!options) return;
    const asked = inIds ? text.value.split(/[\s,]+/).filter(Boolean).map(Number) : text.value;
    prompt.textContent = text.value;
    said.textContent = ending.textContent = "";
    runner.run((signal) => complete(card, asked, options, said, ending, signal));
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    showAnswer();
    run();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  question.append(form);
  answer.append(shown, ending);
}

const NO_TOKENIZER = "This model has no tokenizer: numbers with blanks between, and the answer is numbers too";
const ENDINGS = { stop: "It ended by itself.", length: "It was cut at the longest answer." };

async function complete(card, prompt, options, said, ending, signal) {
  const watch = new Stopwatch();
  const body = { model: card.id, prompt, ...options, stream_options: { include_usage: true } };
  await stream("v1/completions", body, signal, (event) => {
    if (event.usage) watch.tokens = event.usage.completion_tokens;
    for (const choice of event.choices) {
      watch.token();
      said.append(card.token_ids_only ? choice.token_ids.map((token) => ` ${token}`).join("") : choice.text);
      if (choice.finish_reason) ending.textContent = ENDINGS[choice.finish_reason];
    }
  });
  watch.done();
  watch.show();
}
