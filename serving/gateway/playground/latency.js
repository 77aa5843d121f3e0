// What a request took, as the page saw it: from the click to the first token and to the end.

import { element, find } from "./dom.js";

export class Stopwatch {
  constructor() {
    this.began = performance.now();
    this.first = null;
    this.tokens = 0;
  }

  get passed() {
    return (this.ended ?? performance.now()) - this.began;
  }

  // So many tokens have come just now.
  token(count = 1) {
    this.first ??= this.passed;
    this.tokens += count;
    this.show();
  }

  done() {
    this.ended = performance.now();
    return this.passed;
  }

  // Of a text; the speed counts the wait for the first token too.
  get rows() {
    return [
      ["First token", this.first, "ms"],
      ["Tokens", this.tokens, ""],
      ["Speed", (1e3 * this.tokens) / this.passed, "tokens/s"],
      ["Total", this.passed, "ms"],
    ];
  }

  show() {
    showLatency(this.rows);
  }
}

export function showLatency(rows) {
  const list = find("latency");
  list.hidden = false;
  list.replaceChildren(...rows.map(([name, value, unit]) => row(name, value, unit)));
}

export const hideLatency = () => {
  find("latency").hidden = true;
};

function row(name, value, unit) {
  const text = unit === "ms" && value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
  const figure = element("dd", {}, text, unit ? element("small", {}, ` ${unit}`) : "");
  return element("div", {}, element("dt", {}, name), figure);
}
