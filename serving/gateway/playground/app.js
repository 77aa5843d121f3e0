// The page: which models there are, and the view that asks the chosen one.

import { captionView } from "./caption.js";
import { chatView } from "./chat.js";
import { classifyView } from "./classify.js";
import { choice, element, find, fragment } from "./dom.js";
import { embedView } from "./embed.js";
import { hideFailure, showFailure } from "./failure.js";
import { generateView } from "./generate.js";
import { hideLatency } from "./latency.js";
import { predictView } from "./predict.js";
import { forgetAll, Keeper } from "./keep.js";
import { key, models } from "./server.js";
import { translateView } from "./translate.js";

const VIEWS = {
  classify: { verb: "classifies images", view: classifyView },
  translate: { verb: "translates text", view: translateView },
  caption: { verb: "describes images", view: captionView },
  generate: { verb: "continues text", view: textView },
  embed: { verb: "embeds text", view: embedView },
  predict: { verb: "predicts tensors", view: predictView },
};
const ORDER = Object.keys(VIEWS);

const LOOK_MS = 30000; // each counts for the limits of a key
const SOON_MS = 3000;

let leave = () => {};
let nextLook = 0;

async function start() {
  hideFailure();
  try {
    const served = await models();
    const cards = served.filter((card) => card.task in VIEWS);
    cards.sort((one, other) => ORDER.indexOf(one.task) - ORDER.indexOf(other.task) || other.explains.length - one.explains.length);
    showReadiness(served);
    find("key").hidden = true;
    find("links").hidden = key.get() !== ""; // a link carries no key
    showModels(cards);
    window.onhashchange = () => showModels(cards);
  } catch (error) {
    find("server").textContent = "not connected";
    find("server").classList.remove("ready");
    find("key").hidden = error.status !== 401;
    find("links").hidden = error.status === 401;
    showFailure(error, start);
  }
}

// Also what is shown: the models may not be there to show anew.
function forget() {
  forgetAll();
  leave();
  hideLatency();
  for (const part of ["question-body", "answer-body"]) find(part).replaceChildren();
  find("workspace").hidden = true;
}

function showReadiness(served) {
  const ready = served.filter((card) => card.ready).length;
  const whole = ready === served.length;
  find("server").textContent = `${whole ? "" : `${ready} of `}${served.length} model${served.length === 1 ? "" : "s"} ready`;
  find("server").classList.toggle("ready", whole);
  clearTimeout(nextLook);
  nextLook = setTimeout(lookAgain, whole ? LOOK_MS : SOON_MS);
}

// A server may end, and come back, while the page is open.
async function lookAgain() {
  try {
    showReadiness(await models());
  } catch {
    find("server").textContent = "not connected"; // what is asked next says why
    find("server").classList.remove("ready");
    nextLook = setTimeout(lookAgain, LOOK_MS);
  }
}

function showModels(cards) {
  const list = find("models");
  const isFirst = location.hash === "";
  const asked = fragment();
  const chosen = asked ? cards.find((card) => card.id === asked) : cards[0];
  const options = cards.map((card) => modelOption(card, card === chosen));
  list.replaceChildren(list.querySelector("legend"), element("div", { className: "model-list" }, ...options));
  list.hidden = !cards.length;
  find("workspace").hidden = !chosen;
  if (chosen) show(chosen, isFirst);
  else if (cards.length) showFailure(unknownModel(asked));
  else showFailure(new Error("This gateway serves no model that the page can ask."), start);
}

function unknownModel(name) {
  leave();
  return Object.assign(new Error(), { status: 404, found: `no model ${JSON.stringify(name)} here`, remedy: "Choose one of those below." });
}

// A model with a chat template talks, and continues texts all the same.
function textView(card, question, answer, leaving, isFirst) {
  if (!card.chat) return generateView(card, question, answer, leaving, isFirst);
  const [asked, answered] = [element("div"), element("div")];
  let within = new AbortController();
  leaving.addEventListener("abort", () => within.abort());
  const open = (kind) => {
    within.abort();
    within = new AbortController();
    hideLatency();
    asked.replaceChildren();
    answered.replaceChildren();
    (kind === "chat" ? chatView : generateView)(card, asked, answered, within.signal);
  };
  const mode = new Keeper({ id: `${card.id} mode`, task: "mode" });
  const kept = mode.value?.kind === "text" ? "text" : "chat";
  const choose = (kind) => {
    mode.keep({ kind });
    open(kind);
  };
  question.append(choice("What to do", [["chat", "Chat"], ["text", "Continue a text"]], kept, choose), asked);
  answer.append(answered);
  open(kept);
}

function modelOption(card, checked) {
  const input = element("input", { type: "radio", name: "model", value: card.id, checked, onchange: () => choose(card) });
  const words = element("span", { className: "model-name" }, card.id);
  return element("label", { className: "model" }, input, words, element("small", {}, VIEWS[card.task].verb));
}

function choose(card) {
  find("workspace").hidden = false;
  show(card);
}

function show(card, isFirst = false) {
  leave();
  hideFailure();
  hideLatency();
  history.replaceState(null, "", `#${encodeURIComponent(card.id)}`);
  find("question-body").replaceChildren();
  find("answer-body").replaceChildren();
  const leaving = new AbortController();
  leave = () => leaving.abort();
  VIEWS[card.task].view(card, find("question-body"), find("answer-body"), leaving.signal, isFirst);
}

find("key").addEventListener("submit", (event) => {
  event.preventDefault();
  const value = find("key-value").value.trim();
  if (value !== key.get()) forget(); // another key may be another person's
  key.set(value);
  start();
});

start();
