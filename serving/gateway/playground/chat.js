// A conversation, answered token by token; the last question can be asked again with other options.

import { copyButtons } from "./copy.js";
import { element, field } from "./dom.js";
import { Keeper } from "./keep.js";
import { showLatency, Stopwatch } from "./latency.js";
import { Runner } from "./run.js";
import { Sampling } from "./sampling.js";
import { stream } from "./server.js";

const LONGEST = 128; // tokens of an answer, or a quarter of what the model keeps: a conversation needs room

export function chatView(card, question, answer, leaving) {
  let messages = [];
  let isBusy = false;
  const system = element("textarea", { rows: 2 });
  const text = element("textarea", { rows: 3 });
  const sampling = new Sampling(card, { temperature: 0.6, max_tokens: Math.min(LONGEST, Math.ceil((card.max_length ?? Infinity) / 4)) });
  const stop = element("button", { type: "button", hidden: true, onclick: () => runner.stop() }, "Stop");
  const restart = element("button", { type: "button", onclick: () => {
    begin();
    keeper.forget();
  } }, "New chat");
  const form = element("form", {}, field("Instructions", system, "May be left empty"), field("Message", text, "", "messages"), sampling.element,
    element("div", { className: "tools" }, element("button", { className: "primary" }, "Send"), stop, restart));
  const log = element("ol", { className: "chat" });
  const note = element("p", { className: "note", role: "status" });
  const runner = new Runner(leaving, (busy) => {
    isBusy = busy;
    stop.hidden = !busy;
    log.setAttribute("aria-busy", String(busy));
  });
  const keeper = new Keeper({ id: `${card.id} chat`, task: "chat" });
  const begin = () => {
    runner.stop();
    messages = [];
    log.replaceChildren();
    note.textContent = "The conversation appears here.";
  };
  const add = (role, content) => {
    const said = element("p", { className: "prose" }, content);
    log.append(element("li", {}, element("strong", {}, role === "user" ? "You" : card.id), said));
    return said;
  };
  // What would be asked with a message behind those that were said.
  const request = (more) => {
    const options = sampling.values();
    if (!options || !more.length) return null;
    const first = system.value.trim() ? [{ role: "system", content: system.value }] : [];
    return { path: "v1/chat/completions", body: { model: card.id, messages: [...first, ...more], ...options } };
  };
  const typed = () => (text.value.trim() ? [...messages, { role: "user", content: text.value }] : []);
  const send = () => {
    const asked = isBusy ? null : request(typed()); // one answer at a time: the next message stands behind it
    if (!asked) return;
    const message = { role: "user", content: text.value };
    const talk = messages;
    talk.push(message);
    const question = add("user", text.value);
    text.value = note.textContent = "";
    const said = add("assistant", "");
    runner.run(async (signal) => {
      const watch = new Stopwatch();
      const body = { ...asked.body, stream_options: { include_usage: true } };
      try {
        await stream(asked.path, body, signal, (event) => {
          if (event.usage) watch.tokens = event.usage.completion_tokens;
          for (const choice of event.choices) {
            watch.token();
            said.append(choice.delta.content ?? "");
            if (choice.finish_reason === "length") note.textContent = "It was cut at the longest answer.";
          }
        });
      } finally {
        watch.done();
        if (said.textContent) talk.push({ role: "assistant", content: said.textContent });
        else takeBack(talk, message, question, said);
        if (talk === messages && talk.length) {
          keeper.keep({ system: system.value, messages, options: sampling.values() ?? {}, note: note.textContent, latency: watch.rows });
        }
      }
      watch.show();
    });
  };
  // It was not answered: it stands in its field again, and may be corrected.
  const takeBack = (talk, message, ...shown) => {
    talk.pop();
    for (const one of shown) one.parentElement.remove();
    if (talk === messages) text.value ||= message.content;
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  begin();
  question.append(form, copyButtons(() => request(typed().length ? typed() : messages.slice(0, -1))));
  answer.append(element("div", { "aria-live": "polite" }, log), note);
  keeper.restore((last) => {
    messages = last.messages;
    system.value = last.system;
    sampling.set(last.options);
    for (const { role, content } of messages) add(role, content);
    note.textContent = last.note;
    showLatency(last.latency);
  });
}
