// A conversation, answered token by token; the last question can be asked again with other options.

import { element, field } from "./dom.js";
import { Stopwatch } from "./latency.js";
import { Runner } from "./run.js";
import { Sampling } from "./sampling.js";
import { stream } from "./server.js";

const LONGEST = 128; // tokens of an answer, or a quarter of what the model keeps: a conversation needs room

export function chatView(card, question, answer, leaving) {
  const messages = [];
  const system = element("textarea", { rows: 2 });
  const text = element("textarea", { rows: 3 });
  const sampling = new Sampling(card, { temperature: 0.6, max_tokens: Math.min(LONGEST, Math.ceil((card.max_length ?? Infinity) / 4)) });
  const stop = element("button", { type: "button", hidden: true, onclick: () => runner.stop() }, "Stop");
  const restart = element("button", { type: "button", onclick: () => begin() }, "New chat");
  const form = element("form", {}, field("Instructions", system, "May be left empty"), field("Message", text), sampling.element,
    element("div", { className: "tools" }, element("button", { className: "primary" }, "Send"), stop, restart));
  const log = element("ol", { className: "chat" });
  const note = element("p", { className: "note", role: "status" });
  const runner = new Runner(leaving, (busy) => {
    stop.hidden = !busy;
    log.setAttribute("aria-busy", String(busy));
  });
  const begin = () => {
    runner.stop();
    messages.length = 0;
    log.replaceChildren();
    note.textContent = "The conversation appears here.";
  };
  const add = (role, content) => {
    const said = element("p", { className: "prose" }, content);
    log.append(element("li", {}, element("strong", {}, role === "user" ? "You" : card.id), said));
    return said;
  };
  const send = () => {
    const options = sampling.values();
    if (!options || !text.value.trim()) return;
    messages.push({ role: "user", content: text.value });
    add("user", text.value);
    text.value = note.textContent = "";
    const said = add("assistant", "");
    const first = system.value.trim() ? [{ role: "system", content: system.value }] : [];
    runner.run(async (signal) => {
      const watch = new Stopwatch();
      const body = { model: card.id, messages: [...first, ...messages], ...options, stream_options: { include_usage: true } };
      try {
        await stream("v1/chat/completions", body, signal, (event) => {
          if (event.usage) watch.tokens = event.usage.completion_tokens;
          for (const choice of event.choices) {
            watch.token();
            said.append(choice.delta.content ?? "");
            if (choice.finish_reason === "length") note.textContent = "It was cut at the longest answer.";
          }
        });
      } finally {
        if (said.textContent) messages.push({ role: "assistant", content: said.textContent });
        else messages.pop(); // it was not answered, and may be asked again
      }
      watch.done();
      watch.show();
    });
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  begin();
  question.append(form);
  answer.append(element("div", { "aria-live": "polite" }, log), note);
}
