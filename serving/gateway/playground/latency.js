// What a request took, as the page saw it: from the click to the first token and to the end.

import { element, find } from "./dom.js";

export class Stopwatch {
  constructor() {
    this.began = performance.now();
    this.first = null;
    this.tokens = 0;
  }

  // So many tokens have come just now.
  token(count = 1) {
    this.last = performance.now();
    this.first ??= this.last;
    this.tokens += count;
    this.show();
  }

  done() {
    this.ended = performance.now();
    this.show();
  }

  show() {
    const total = (this.ended ?? performance.now()) - this.began;
    const between = this.last - this.first;
    const rows = this.tokens
      ? [
          ["First token", this.first - this.began, "ms"],
          ["Tokens", this.tokens, ""],
          ["Speed", between > 0 && this.tokens > 1 ? (1e3 * (this.tokens - 1)) / between : null, "tokens/s"],
          ["Total", total, "ms"],
        ]
      : [["Total", total, "ms"]];
    const list = find("latency");
    list.hidden = false;
    list.replaceChildren(...rows.map(([name, value, unit]) => row(name, value, unit)));
  }
}

export const hideLatency = () => {
  find("latency").hidden = true;
};

function row(name, value, unit) {
  const text = value === null ? "–" : unit === "ms" && value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
  const figure = element("dd", {}, text, unit ? element("small", {}, ` ${unit}`) : "");
  return element("div", {}, element("dt", {}, name), figure);
}
