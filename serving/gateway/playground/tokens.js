// Rows of tokens that light what they attend to: by mouse, by touch, and by arrow keys.

import { element, percent } from "./dom.js";

export class TokenRow {
  // `onPoint` gets the number of the token that is pointed at, or null.
  constructor(label, onPoint) {
    this.onPoint = onPoint;
    this.texts = [];
    this.element = element("div", { className: "tokens", role: "group", "aria-label": `${label}; arrow keys move` });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("mouseleave", () => onPoint(null));
  }

  set(texts) {
    this.texts = [];
    this.element.replaceChildren();
    for (const text of texts) this.add(text);
  }

  add(text) {
    const number = this.texts.length;
    this.texts.push(text);
    const point = () => this.onPoint(number);
    this.element.append(element("button", {
      type: "button", className: "token", tabIndex: number ? -1 : 0, onmouseenter: point, onfocus: point, onclick: point,
      onblur: () => this.onPoint(null),
    }, visible(text)));
  }

  // Light each token by its weight, of which `most` shines most. `chosen` is marked.
  light(weights, chosen = null, most = Math.max(...(weights ?? []))) {
    [...this.element.children].forEach((token, number) => {
      const share = weights ? (weights[number] ?? 0) / Math.max(most, 1e-9) : 0;
      token.style.setProperty("--light", share.toFixed(3));
      token.classList.toggle("lit", share > 0.5);
      token.classList.toggle("chosen", number === chosen);
    });
  }

  key(event) {
    const tokens = [...this.element.children];
    const at = tokens.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tokens.length - 1 }[event.key];
    if (to === undefined || !tokens[to]) return;
    event.preventDefault();
    tokens.forEach((token, number) => {
      token.tabIndex = number === to ? 0 : -1;
    });
    tokens[to].focus();
  }
}

export const visible = (text) => (text.trim() ? text.trim() : text ? "␣" : "·");

// The strongest weights in words: what colour says to who sees it.
export function strongest(weights, texts) {
  const order = weights.map((weight, number) => [weight, number]).sort(([one], [other]) => other - one);
  return order.slice(0, 3).filter(([weight]) => weight > 0.05)
    .map(([weight, number]) => `“${visible(texts[number])}” ${percent(weight)}`).join(", ");
}
