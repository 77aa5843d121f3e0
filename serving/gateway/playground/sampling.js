// Controls of how an answer is decoded, built from what the model's card says that it takes.

import { element, field } from "./dom.js";

const CONTROLS = [
  ["temperature", "Temperature", { min: 0, max: 2, step: 0.05 }, "0 always takes the likeliest token"],
  ["top_p", "Top p", { min: 0.01, max: 1, step: 0.01 }, "likeliest tokens with this share in all"],
  ["top_k", "Top k", { min: 0, step: 1 }, "so many likeliest tokens"],
  ["seed", "Seed", { min: 0, max: Number.MAX_SAFE_INTEGER, step: 1 }, "the same seed, the same answer"],
  ["max_tokens", "Max tokens", { min: 1, step: 1 }, "longest answer"],
  ["beam_width", "Beams", { min: 1, max: 32, step: 1 }, "several drafts, ranked; comes whole"],
];

export class Sampling {
  // `standard`: option → what stands there at first.
  constructor(card, standard = {}) {
    this.inputs = new Map();
    const fields = CONTROLS.filter(([name]) => card.options.includes(name)).map(([name, label, limits, hint]) => {
      const input = element("input", {
        type: "number", inputMode: Number.isInteger(limits.step) ? "numeric" : "decimal", placeholder: "default",
        value: standard[name] ?? "", name, ...limits,
      });
      this.inputs.set(name, input);
      return field(label, input, hint, name);
    });
    this.element = element("details", { className: "sampling" }, element("summary", {}, "Sampling"),
      element("div", { className: "fields" }, ...fields));
    this.element.hidden = !fields.length;
  }

  // Let these stand there, and the others at their defaults.
  set(values) {
    for (const [name, input] of this.inputs) input.value = values[name] ?? "";
  }

  // Those that were given; opens the controls and returns null where one is out of its range.
  values() {
    const wrong = [...this.inputs.values()].find((input) => !input.checkValidity());
    if (wrong) {
      this.element.open = true;
      wrong.reportValidity();
      return null;
    }
    const given = [...this.inputs].filter(([, input]) => input.value !== "");
    return Object.fromEntries(given.map(([name, input]) => [name, Number(input.value)]));
  }
}

export const hasBeams = (values) => (values.beam_width ?? 1) > 1;
