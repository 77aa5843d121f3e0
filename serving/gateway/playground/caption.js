// An image → a sentence, word by word; each word shows where it looked.

import { Board } from "./board.js";
import { copyButtons } from "./copy.js";
import { element } from "./dom.js";
import { drawOverlay, framed, legend, nameAxes } from "./heat.js";
import { Keeper } from "./keep.js";
import { showLatency, Stopwatch } from "./latency.js";
import { Runner } from "./run.js";
import { hasBeams, Sampling } from "./sampling.js";
import { stream } from "./server.js";
import { TokenRow, visible } from "./tokens.js";

const TWO_DIGITS = [[0, 0.25, 0.5], [0.5, 0.25, 0.5]];

export function captionView(card, question, answer, leaving) {
  const sampling = new Sampling(card);
  const shown = new Caption();
  const board = new Board(card.image_size[0], TWO_DIGITS, () => run());
  const stop = element("button", { type: "button", hidden: true, onclick: () => runner.stop() }, "Stop");
  const runner = new Runner(leaving, (busy) => (stop.hidden = !busy));
  const form = element("form", {}, board.element, sampling.element,
    element("div", { className: "tools" }, element("button", { className: "primary" }, "Describe"), stop));
  const keeper = new Keeper(card);
  const request = () => {
    const options = sampling.values();
    if (!options) return null;
    const explain = card.explains.includes("alignment") && !hasBeams(options);
    return { path: "v1/caption", body: { model: card.id, image: board.image, ...options, explain } };
  };
  const run = () => {
    const asked = request();
    if (asked) runner.run((signal) => describe(asked, sampling.values(), board, shown, keeper, signal));
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  question.append(form, copyButtons(request));
  answer.append(shown.element);
  keeper.restore(async (last) => {
    await board.restore(last.image);
    if (leaving.aborted) return;
    sampling.set(last.options);
    shown.clear(board.canvas);
    for (const said of last.events) shown.add(said);
    shown.done();
    showLatency(last.latency);
  });
}

async function describe({ path, body }, options, board, shown, keeper, signal) {
  shown.clear(board.canvas);
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
    if (events.length) keeper.keep({ image: body.image, options, events, latency: watch.rows });
  }
  watch.show();
  shown.done();
}

class Caption {
  constructor() {
    this.words = new TokenRow("Caption", (number) => this.point(number));
    this.words.element.classList.add("words");
    this.canvas = element("canvas", { width: 256, height: 256, className: "overlay", role: "img", "aria-label": "The image" });
    this.caption = element("figcaption", { "aria-live": "polite" });
    this.whole = element("p", { className: "visually-hidden", "aria-live": "polite" });
    this.framed = framed(this.canvas, "", "");
    this.legend = element("p", { className: "legend" });
    this.figure = element("figure", { className: "maps", hidden: true }, this.framed, this.legend, this.caption);
    this.note = element("p", { className: "note" }, "Draw two digits side by side, or take the sample.");
    this.small = element("div", { className: "word-maps", hidden: true });
    this.element = element("div", { className: "stack" }, this.note, this.words.element,
      element("div", { className: "side-by-side" }, this.figure, this.small), this.whole);
    this.maps = [];
  }

  clear(image) {
    this.image = element("canvas", { width: image.width, height: image.height });
    this.image.getContext("2d").drawImage(image, 0, 0);
    this.maps = [];
    this.words.set([]);
    this.small.replaceChildren();
    this.small.hidden = true;
    this.note.hidden = true;
    this.figure.hidden = false;
    this.point(null);
  }

  add(said) {
    this.maps.push(...(said.alignment ?? []).map(grid));
    for (const token of said.tokens ?? [said.text].filter(Boolean)) this.words.add(token);
  }

  thumbnail(number) {
    const canvas = element("canvas", { width: 96, height: 96, "aria-hidden": "true" });
    drawOverlay(canvas, this.image, this.maps[number]);
    const point = () => this.point(number);
    this.small.hidden = false;
    this.small.append(element("figure", { onmouseenter: point, onmouseleave: () => this.point(null) }, canvas,
      element("figcaption", {}, visible(this.words.texts[number]))));
  }

  done() {
    this.maps.forEach((_, number) => this.thumbnail(number));
    this.whole.textContent = `Caption: ${this.words.texts.join("")}`;
    this.point(null);
  }

  point(number) {
    const map = number === null ? null : this.maps[number];
    drawOverlay(this.canvas, this.image, map);
    this.words.light(null, number);
    const shown = map ?? this.maps[0];
    this.legend.hidden = !shown;
    if (shown) nameAxes(this.framed, shown);
    if (shown) this.legend.replaceChildren(...legend(Math.min(...shown.flat()), Math.max(...shown.flat()), "attention of a word"));
    const word = map ? visible(this.words.texts[number]) : "";
    this.canvas.setAttribute("aria-label", map ? `Where “${word}” looked, as colours over the image` : "The image");
    this.caption.textContent = map ? `Where “${word}” looked.` : this.maps.length ? "Point at a word to see where it looked." : "";
  }
}

// The weights of a square of patches, behind those of tokens in front.
function grid(weights) {
  const side = Math.floor(Math.sqrt(weights.length));
  const patches = weights.slice(weights.length - side * side);
  return Array.from({ length: side }, (_, row) => patches.slice(row * side, (row + 1) * side));
}
