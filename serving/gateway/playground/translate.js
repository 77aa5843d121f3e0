// A text → another text, token by token; each token lights what it was read off, and each source token what read it.

import { element, field, showAnswer } from "./dom.js";
import { Stopwatch } from "./latency.js";
import { Matrix } from "./matrix.js";
import { Runner } from "./run.js";
import { hasBeams, Sampling } from "./sampling.js";
import { stream } from "./server.js";
import { strongest, TokenRow } from "./tokens.js";

export function translateView(card, question, answer, leaving) {
  const text = element("textarea", { rows: 2, value: card.example.inputs?.text ?? "", spellcheck: false });
  const sampling = new Sampling(card);
  const stop = element("button", { type: "button", hidden: true, onclick: () => runner.stop() }, "Stop");
  const form = element("form", { onsubmit: (event) => event.preventDefault() }, field("Text", text), sampling.element,
    element("div", { className: "tools" }, element("button", { className: "primary" }, "Translate"), stop));
  const runner = new Runner(leaving, (busy) => (stop.hidden = !busy));
  const shown = new Alignment(card.explains.includes("alignment"));
  const run = () => {
    const options = sampling.values();
    if (options) runner.run((signal) => translate(card, text.value, options, shown, signal));
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
  question.append(form);
  answer.append(shown.element);
  if (text.value) run();
}

async function translate(card, input, options, shown, signal) {
  shown.clear();
  const explain = shown.explains && !hasBeams(options);
  const watch = new Stopwatch();
  const body = { model: card.id, input, ...options, explain };
  await stream("v1/translate", body, signal, (said) => {
    if (said.usage) return;
    watch.token(said.token_ids.length);
    shown.add(said);
  });
  watch.done();
  watch.show();
  shown.done();
}

class Alignment {
  constructor(explains) {
    this.explains = explains;
    this.source = new TokenRow("Source", (number) => this.pointSource(number));
    this.target = new TokenRow("Answer", (number) => this.pointTarget(number));
    this.matrix = new Matrix((row, column) => (row === null ? this.dark() : this.pointTarget(row, column)));
    this.whole = element("p", { className: "visually-hidden", "aria-live": "polite" });
    this.note = element("p", { className: "note", role: "status" });
    this.sourceTitle = element("h3", {}, "Source");
    this.element = element("div", { className: "stack" }, this.target.element,
      this.sourceTitle, this.source.element, this.note, this.matrix.element, this.whole);
    this.clear();
  }

  clear() {
    this.rows = [];
    this.source.set([]);
    this.target.set([]);
    this.matrix.draw([], [], []);
    this.sourceTitle.hidden = true;
    this.note.textContent = "";
  }

  add(said) {
    if (said.source) this.source.set(said.source);
    this.sourceTitle.hidden = !this.source.texts.length;
    this.rows.push(...(said.alignment ?? []));
    for (const token of said.tokens ?? [said.text].filter(Boolean)) this.target.add(token);
  }

  done() {
    this.whole.textContent = `Answer: ${this.target.texts.join("")}`;
    this.dark();
  }

  dark() {
    this.source.light(null);
    this.target.light(null);
    this.draw();
    this.note.textContent = this.rows.length ? "Point at a token to see what it was read off." : "";
  }

  draw(chosen) {
    if (this.rows.length) this.matrix.draw(this.target.texts, this.source.texts, this.rows, chosen);
  }

  pointTarget(number, column = null) {
    if (number === null || !this.rows[number]) return this.dark();
    this.source.light(this.rows[number], column);
    this.target.light(null, number);
    this.draw([number, column]);
    this.note.textContent = `It read ${strongest(this.rows[number], this.source.texts)}.`;
    return null;
  }

  pointSource(number) {
    if (number === null || !this.rows.length) return this.dark();
    const weights = this.rows.map((row) => row[number]);
    this.target.light(weights, null);
    this.source.light(null, number);
    const words = strongest(weights, this.target.texts);
    this.note.textContent = words ? `It was read by ${words}.` : "No token read it much.";
    return null;
  }
}
