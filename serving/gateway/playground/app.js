// The page: which models there are, and the view that asks the chosen one.

import { captionView } from "./caption.js";
import { classifyView } from "./classify.js";
import { element, find } from "./dom.js";
import { hideFailure, showFailure } from "./failure.js";
import { generateView } from "./generate.js";
import { hideLatency } from "./latency.js";
import { key, models } from "./server.js";
import { translateView } from "./translate.js";

const VIEWS = {
  classify: { verb: "classifies images", view: classifyView },
  translate: { verb: "translates text", view: translateView },
  caption: { verb: "describes images", view: captionView },
  generate: { verb: "continues text", view: generateView },
};
const ORDER = Object.keys(VIEWS);

let leave = () => {};

async function start() {
  hideFailure();
  try {
    const cards = (await models()).filter((card) => card.task in VIEWS);
    cards.sort((one, other) => ORDER.indexOf(one.task) - ORDER.indexOf(other.task) || other.explains.length - one.explains.length);
    find("server").textContent = `${cards.length} model${cards.length === 1 ? "" : "s"} ready`;
    find("server").classList.add("ready");
    find("key").hidden = true;
    find("links").hidden = key.get() !== ""; // a link carries no key
    showModels(cards);
  } catch (error) {
    find("server").textContent = "not connected";
    find("server").classList.remove("ready");
    find("key").hidden = error.status !== 401;
    find("links").hidden = error.status === 401;
    showFailure(error, start);
  }
}

function showModels(cards) {
  const list = find("models");
  const asked = decodeURIComponent(location.hash.slice(1));
  const chosen = cards.find((card) => card.id === asked) ?? cards[0];
  const options = cards.map((card) => modelOption(card, card === chosen));
  list.replaceChildren(list.querySelector("legend"), element("div", { className: "model-list" }, ...options));
  list.hidden = find("workspace").hidden = !chosen;
  if (chosen) show(chosen);
  else showFailure(new Error("This gateway serves no model that the page can ask."), start);
}

function modelOption(card, checked) {
  const input = element("input", { type: "radio", name: "model", value: card.id, checked, onchange: () => show(card) });
  const words = element("span", { className: "model-name" }, card.id);
  return element("label", { className: "model" }, input, words, element("small", {}, VIEWS[card.task].verb));
}

function show(card) {
  leave();
  hideFailure();
  hideLatency();
  history.replaceState(null, "", `#${encodeURIComponent(card.id)}`);
  find("question-body").replaceChildren();
  find("answer-body").replaceChildren();
  const leaving = new AbortController();
  leave = () => leaving.abort();
  VIEWS[card.task].view(card, find("question-body"), find("answer-body"), leaving.signal);
}

find("key").addEventListener("submit", (event) => {
  event.preventDefault();
  key.set(find("key-value").value.trim());
  start();
});

start();
