// An image → the most probable labels, and over the image what they rest on.

import { Board } from "./board.js";
import { copyButtons } from "./copy.js";
import { element, percent } from "./dom.js";
import { Keeper } from "./keep.js";
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
  const keeper = new Keeper(card);
  let last = { latency: [] };
  answer.append(element("div", { className: "side-by-side" }, left, maps.element));
  const request = () => ({ path: "v1/classify", body: { model: card.id, image: board.image, top_k: TOP } });
  question.append(board.element, copyButtons(request));

  const run = (mapsOnly = false) => runner.run(async (signal) => {
    const { path, body } = request();
    if (!mapsOnly) {
      const watch = new Stopwatch();
      const found = await ask(path, body, signal);
      last = { image: body.image, labels: found.labels, latency: [["Answer", watch.done(), "ms"]] };
      note.hidden = true;
      showLabels(found.labels);
      maps.label = null;
    }
    const watch = new Stopwatch();
    const found = await ask("v1/explain", { model: card.id, image: body.image, kind: maps.kind }, signal);
    last = { ...last, kind: maps.kind, maps: found.maps, latency: [last.latency[0], ["Explanation", watch.done(), "ms"]] };
    maps.draw(board.canvas, found.maps);
    showLatency(last.latency);
    keeper.keep(last);
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
  const wasAsked = keeper.restore(async (kept) => {
    if (!card.explains.includes(kept.kind)) return;
    await board.restore(kept.image);
    if (leaving.aborted) return;
    last = kept;
    note.hidden = true;
    showLabels(kept.labels);
    maps.setKind(kept.kind);
    maps.draw(board.canvas, kept.maps);
    showLatency(kept.latency);
  });
  if (isFirst && !wasAsked) board.sample(); // whoever has never been here sees an answer, and what can be done
}
