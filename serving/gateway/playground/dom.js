// Elements made in one line. Texts are set as texts: nothing that a server says is ever read as HTML.

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && key !== "list") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const find = (id) => document.getElementById(id);

let numbers = 0;
export const freshId = (stem) => `${stem}-${(numbers += 1)}`;

// `param`: the field of a request that the input fills; an error of it is shown here.
export function field(label, input, hint = "", param = "") {
  input.id ||= freshId("field");
  const about = hint ? element("span", { className: "hint", id: `${input.id}-hint` }, hint) : null;
  if (about) input.setAttribute("aria-describedby", about.id);
  if (param) input.dataset.param = param;
  return element("div", { className: "field" }, element("label", { htmlFor: input.id }, label), input, about);
}

export function select(options, chosen, onChange) {
  const made = element("select", { onchange: () => onChange(made.value) });
  for (const [value, text] of options) made.append(element("option", { value, selected: value === chosen }, text));
  return made;
}

// A row of buttons of which one is pressed; `onChange` gets its value.
export function choice(label, options, chosen, onChange) {
  const group = element("div", { className: "choice", role: "group", "aria-label": label });
  const choose = (value) => {
    press(group, value);
    onChange(value);
  };
  for (const [value, text] of options) group.append(element("button", { type: "button", value, onclick: () => choose(value) }, text));
  press(group, chosen);
  return group;
}

export function press(group, value) {
  for (const button of group.children) button.setAttribute("aria-pressed", String(button.value === value));
}

// 99.6 % is neither "100 %" nor as sure as 99.96 %: only certainty is 100 %.
export function percent(share) {
  if (share > 0.9995 && share < 1) return "> 99.9 %";
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return `${(100 * share).toFixed(share >= 0.1 && (share < 0.99 || share === 1) ? 0 : 1)} %`;
}

// An answer may lie below its question, as on a phone: show it to who has just asked.
export const showAnswer = () => find("answer").scrollIntoView({ block: "nearest" });
