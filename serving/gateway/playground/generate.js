// A prompt → its continuation, token by token; where the model shows its attention, each token lights what it read.

import { Alignment } from "./alignment.js";
import { copyButtons } from "./copy.js";
import { element, field, showAnswer } from "./dom.js";
import { Keeper } from "./keep.js";
import { showLatency, Stopwatch } from "./latency.js";
import { Runner } from "./run.js";
import { hasBeams, Sampling } from "./sampling.js";
import { stream } from "./server.js";

const LONGEST = 64; // tokens of an answer, or half of what the model keeps: the prompt needs room
const NO_TOKENIZER = "This model has no tokenizer: numbers with blanks between, and the answer is numbers too";
const ENDINGS = { stop: "It ended by itself.", length: "It was cut at the longest answer." };

export function generateView(card, question, answer, leaving) {
  const inIds = card.token_ids_only;
  const example = inIds ? (card.example.inputs?.input_ids ?? [0]).join(" ") : (card.example.inputs?.text ?? "");
  const text = element("textarea", { rows: 4, value: example, spellcheck: false });
  const sampling = new Sampling(card, { temperature: 0.6, max_tokens: Math.min(LONGEST, Math.ceil((card.max_length ?? Infinity) / 2)) });
  sampling.element.open = true;
  const stop = element("button", { type: "button", hidden: true, onclick: () => runner.stop() }, "Stop");
  const prompt = inIds ? field("Token ids", text, NO_TOKENIZER, "prompt") : field("Prompt", text, "", "prompt");
  const form = element("form", {}, prompt, sampling.element,
    element("div", { className: "tools" }, element("button", { className: "primary" }, "Continue"), stop));
  const keeper = new Keeper(card);
  const shown = new Continuation(card);
  const runner = new Runner(leaving, (busy) => {
    stop.hidden = !busy;
    shown.said.setAttribute("aria-busy", String(busy));
  });
  const request = () => {
    const options = sampling.values();
    if (!options) return null;
    const prompt = inIds ? text.value.split(/[\s,]+/).filter(Boolean).map(Number) : text.value;
    const explain = card.explains.includes("alignment") && !hasBeams(options) ? { explain: true } : {};
    return { path: "v1/completions", body: { model: card.id, prompt, ...options, ...explain } };
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const asked = request();
    if (!asked) return;
    showAnswer();
    runner.run((signal) => complete(asked, { prompt: text.value, options: sampling.values() }, shown, keeper, signal));
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  question.append(form, copyButtons(request));
  answer.append(shown.element);
  keeper.restore((last) => {
    text.value = last.prompt;
    sampling.set(last.options);
    shown.begin(last.prompt);
    for (const choice of last.choices) shown.add(choice);
    shown.done();
    showLatency(last.latency);
  });
}

async function complete({ path, body }, question, shown, keeper, signal) {
  const watch = new Stopwatch();
  const choices = [];
  shown.begin(question.prompt);
  try {
    await stream(path, { ...body, stream_options: { include_usage: true } }, signal, (event) => {
      if (event.usage) watch.tokens = event.usage.completion_tokens;
      for (const choice of event.choices) {
        choices.push(choice);
        watch.token();
        shown.add(choice);
      }
    });
  } finally {
    watch.done();
    shown.done();
    if (choices.length) keeper.keep({ ...question, choices, latency: watch.rows });
  }
  watch.show();
}

class Continuation {
  constructor(card) {
    this.inIds = card.token_ids_only;
    this.prompt = element("span", { className: "prompt" });
    this.said = element("span", { "aria-live": "polite" });
    this.ending = element("p", { className: "note", role: "status" }, "The continuation appears here as it is written.");
    this.alignment = new Alignment(card);
    this.alignment.element.hidden = true;
    this.element = element("div", { className: "stack" }, element("p", { className: "prose" }, this.prompt, this.said),
      this.ending, this.alignment.element);
  }

  begin(prompt) {
    this.prompt.textContent = prompt;
    this.said.textContent = this.ending.textContent = "";
    this.alignment.element.hidden = true;
    this.alignment.clear();
  }

  add(choice) {
    this.said.append(this.inIds ? choice.token_ids.map((token) => ` ${token}`).join("") : choice.text);
    if (choice.finish_reason) this.ending.textContent = ENDINGS[choice.finish_reason];
    if (choice.alignment) this.alignment.add(choice);
  }

  done() {
    this.alignment.element.hidden = !this.alignment.rows.length;
    if (this.alignment.rows.length) this.alignment.done();
  }
}
