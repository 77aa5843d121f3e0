// Tensors → tensors: a field for each input of the model's contract, and each output as numbers or as labels.

import { copyButtons } from "./copy.js";
import { element, field, freshId } from "./dom.js";
import { showFailure } from "./failure.js";
import { Keeper } from "./keep.js";
import { showLatency, Stopwatch } from "./latency.js";
import { Runner } from "./run.js";
import { ask, askFile } from "./server.js";

const SHOWN = 10; // labels
const MOST = 4096; // numbers of one output that the page prints, and of one input that it fills in
const filled = (shape, value) =>
  shape.length ? Array.from({ length: shape[0] ?? 1 }, () => filled(shape.slice(1), value)) : value;
const sizes = (shape) => `[${shape.map((size) => size ?? "any").join(", ")}]`;

export function predictView(card, question, answer, leaving) {
  const fields = card.inputs.map((input) => {
    const isLarge = input.shape.reduce((count, size) => count * (size ?? 1), 1) > MOST;
    const row = card.example.inputs?.[input.name] ?? (isLarge ? null : filled(input.shape, input.dtype === "bool"));
    const text = element("textarea", { rows: input.shape.length > 1 ? 6 : 2, spellcheck: false, value: row === null ? "" : JSON.stringify(row) });
    const kind = input.shape.length ? `One row of ${input.dtype} ${sizes(input.shape)}, as JSON` : `One ${input.dtype}`;
    const about = row === null ? `${kind}; so many numbers are better sent as a .npy file` : kind;
    return { name: input.name, dtype: input.dtype, text, element: field(input.name, text, about, `inputs.${input.name}`) };
  });
  const file = element("input", { type: "file", accept: ".npy,.npz", id: freshId("file"), className: "visually-hidden",
    onchange: () => {
      const [chosen] = file.files;
      const kind = chosen?.name.toLowerCase().endsWith(".npy") ? "application/x-npy" : "application/x-npz";
      const path = `v1/predict?label_names=true&model=${encodeURIComponent(card.id)}`;
      if (chosen) predict((signal) => askFile(path, chosen, kind, signal).finally(() => { file.value = ""; }));
    } });
  const form = element("form", {}, ...fields.map((one) => one.element),
    element("div", { className: "tools" }, element("button", { className: "primary" }, "Predict"),
      element("span", { className: "file" }, file, element("label", { htmlFor: file.id, className: "button" }, "Open NumPy file…"))),
    element("p", { className: "hint" }, `${fields.length > 1 ? "A .npz file with an array for each input" : "A .npy or .npz file"}, of several rows; the first is shown.`));
  const note = element("p", { className: "note" }, "The outputs appear here.");
  const shown = element("div", { className: "stack", "aria-live": "polite" });
  const runner = new Runner(leaving);
  const keeper = new Keeper(card);
  const request = () => {
    try {
      const inputs = Object.fromEntries(fields.map(({ name, dtype, text }) => [name, [parsed(name, dtype, text.value)]]));
      return { path: "v1/predict", body: { model: card.id, inputs } };
    } catch (error) {
      showFailure(error);
      return null;
    }
  };
  const show = ({ outputs, labelled, names, latency }) => {
    note.hidden = true;
    shown.replaceChildren(...Object.entries(outputs).map(([name, row]) =>
      output(name, row, labelled.includes(name) && names ? names : null)));
    showLatency(latency);
  };
  const predict = (asked) => runner.run(async (signal) => {
    const watch = new Stopwatch();
    const found = await asked(signal);
    const answered = {
      texts: fields.map(({ text }) => text.value),
      outputs: Object.fromEntries(Object.entries(found.outputs).map(([name, rows]) => [name, rows[0]])),
      labelled: Object.keys(found.labels),
      names: found.label_names, // of the model that answered: another may be served since the page has asked for its card
      latency: [["Answer", watch.done(), "ms"]],
    };
    show(answered);
    keeper.keep(answered);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const asked = request();
    if (asked) predict((signal) => ask(`${asked.path}?label_names=true`, asked.body, signal));
  });
  question.append(form, copyButtons(request));
  answer.append(note, shown);
  keeper.restore((last) => {
    fields.forEach(({ text }, at) => {
      text.value = last.texts[at] ?? text.value;
    });
    show(last);
  });
}

function parsed(name, dtype, text) {
  const refuse = (expected, found, remedy) => {
    throw Object.assign(new Error(), { param: `inputs.${name}`, expected, found, remedy });
  };
  let row = null;
  try {
    row = JSON.parse(text);
  } catch (error) {
    refuse(`JSON in ${name}`, error.message, "Correct the field.");
  }
  const rounded = /int/.test(dtype) && [row].flat(Infinity).find((one) => Number.isInteger(one) && !Number.isSafeInteger(one));
  if (rounded) refuse(`integers of ${name} between ±2⁵³, as browsers have them`, String(rounded), "Send such by a .npy file, or by the API.");
  return row;
}

function output(name, row, labels) {
  const heading = element("h3", {}, name);
  if (!labels) {
    const text = JSON.stringify(row);
    const most = MOST * 4;
    return element("div", {}, heading, element("pre", { className: "prose numbers", tabIndex: 0 },
      text.length > most ? `${text.slice(0, most)} …` : text));
  }
  const known = row.flatMap((value, at) => (value === null ? [] : [at])).sort((one, other) => row[other] - row[one]);
  const order = [...known, ...row.flatMap((value, at) => (value === null ? [at] : []))]; // what is no number comes last
  const [most, least] = [row[known[0]], row[known[known.length - 1]]];
  return element("div", {}, heading, element("ol", { className: "bars" }, ...order.slice(0, SHOWN).map((at) => {
    const bar = element("span", { className: "bar" });
    const value = row[at];
    bar.style.setProperty("--share", value === null ? "0" : ((value - least) / (most - least || 1)).toFixed(4));
    return element("li", {}, element("div", { className: "bar-row" }, element("span", { className: "label" }, labels[at]), bar,
      element("span", { className: "share" }, value === null ? "none" : value.toPrecision(4))));
  })));
}
