// An image → the most probable labels, and over the image what they rest on.

import { Board } from "./board.js";
import { element, percent } from "./dom.js";
import { showLatency, Stopwatch } from "./latency.js";
import { Maps } from "./maps.js";
import { Runner } from "./run.js";
import { ask } from "./server.js";

const TOP = 5;

export function classifyView(card, question, answer, leaving, isFirst) {
  const runner = new Runner(leaving);
  const board = new Board(card.image_size[0], [[0, 0, 1]], () => run());
  const bars = element("ol", { className: "bars" });
  const verdict = element("p", { className: "verdict", "aria-live": "polite" });
  const note = element("p", { className: "note" }, "Draw something, and the answer appears here.");
  const maps = new Maps(card, () => run(true));
  const left = element("div", { className: "stack" }, note, verdict, bars, maps.small);
  let answered = 0;
  answer.append(element("div", { className: "side-by-side" }, left, maps.element));
  question.append(board.element);

  const run = (mapsOnly = false) => runner.run(async (signal) => {
    const asked = { model: card.id, image: board.image };
    if (!mapsOnly) {
      const watch = new Stopwatch();
      const found = await ask("v1/classify", { ...asked, top_k: TOP }, signal);
      answered = watch.done();
      note.hidden = true;
      showLabels(found.labels);
      maps.label = null;
    }
    const explained = await maps.explain(board.canvas, asked, signal);
    showLatency([["Answer", answered, "ms"], ["Explanation", explained, "ms"]]);
  });

  const showLabels = (labels) => {
    verdict.replaceChildren(element("span", { className: "visually-hidden" }, "Most probable: "),
      element("strong", {}, labels[0].label), ` ${percent(labels[0].probability)}`);
    bars.replaceChildren(...labels.map(({ label, probability }) => {
      const bar = element("span", { className: "bar" });
      bar.style.setProperty("--share", probability.toFixed(4));
      const show = () => maps.showLabel(label);
      const title = `What speaks for ${label}`;
      return element("li", {}, element("button", { type: "button", onclick: show, title },
        element("span", { className: "label" }, label), bar, element("span", { className: "share" }, percent(probability))));
    }));
  };
  if (isFirst) board.sample(); // whoever has never been here sees an answer, and what can be done
}
