"use strict";
// Draws each plot from the JSON beside it, as wide as its place; the tables of the page have every figure without it.
const MARGIN = { left: 62, right: 14, top: 24, bottom: 42 };
const TRANSFORMS = {
  linear: (value) => value,
  log: (value) => Math.log10(Math.max(value, 1e-9)),
  tail: (percent) => -Math.log10(Math.max(1 - percent / 100, 1e-9)), // each nine is as wide as the one before
};
const PERCENTILES = [0, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999];
const digits = (value) => (Math.abs(value) < 1000 ? String(Number(value.toPrecision(3))) : Math.round(value).toLocaleString("en"));
const TEXTS = {
  count: digits,
  percent: (value) => `${Number(value.toPrecision(5))} %`,
  seconds: (value) => `${digits(value)} s`,
  latency: (value) =>
    !value ? "0" : value < 999.5e-6 ? `${digits(value * 1e6)} µs` : value < 0.9995 ? `${digits(value * 1e3)} ms` : `${digits(value)} s`,
};

// The share of an axis at which a value lies; values beyond its ends are set to them.
function place(axis, value) {
  const [low, high, at] = [axis.low, axis.high, value].map(TRANSFORMS[axis.scale]);
  return Math.min(1, Math.max(0, (at - low) / (high - low || 1)));
}

// Round values along an axis, about as many as asked.
function ticks(axis, most) {
  const { scale, low, high } = axis;
  if (scale === "tail") return PERCENTILES.filter((one) => one <= high && (most > 5 || ![75, 95].includes(one)));
  if (scale === "log" && high >= 8 * low) {
    const powers = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) powers.push(power);
    const choices = [[1, 2, 5], [1, 3], [1]].map((steps) =>
      powers.flatMap((power) => steps.map((step) => step * 10 ** power)).filter((one) => one >= low * 0.999 && one <= high * 1.001),
    );
    return choices.find((found) => found.length <= most + 1) || choices[2];
  }
  const raw = (high - low) / Math.max(most, 1) || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= raw * 0.6);
  const found = [];
  for (let number = Math.ceil(low / step - 1e-9); number <= Math.floor(high / step + 1e-9); number++) found.push(number * step);
  return found;
}

function element(parent, name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
}

function draw(host, plot) {
  const width = Math.max(host.clientWidth, 200);
  const height = plot.height || 300;
  const [left, right, top, bottom] = [MARGIN.left, width - MARGIN.right, MARGIN.top, height - MARGIN.bottom];
  const across = (value) => Math.round(10 * (left + place(plot.x, value) * (right - left))) / 10;
  const up = (value) => Math.round(10 * (bottom - place(plot.y, value) * (bottom - top))) / 10;
  const svg = element(document.createDocumentFragment(), "svg", { class: "plot", role: "img", viewBox: `0 0 ${width} ${height}` });
  svg.setAttribute("aria-label", plot.label);
  for (const [low, high] of plot.shades || []) {
    const size = across(high) - across(low);
    if (size > 0) element(svg, "rect", { class: "shade", x: across(low), y: top, width: size, height: bottom - top });
  }
  for (const value of ticks(plot.y, (bottom - top) / 44)) {
    element(svg, "path", { class: "grid", d: `M${left} ${up(value)}H${right}` });
    element(svg, "text", { class: "tick y", x: left - 8, y: up(value) + 4, "text-anchor": "end" }, TEXTS[plot.y.unit](value));
  }
  let last = -Infinity;
  for (const value of ticks(plot.x, Math.floor((right - left) / 84))) {
    if (across(value) - last < 44) continue;
    last = across(value);
    element(svg, "path", { class: "grid", d: `M${last} ${top}V${bottom}` });
    element(svg, "text", { class: "tick x", x: last, y: bottom + 17, "text-anchor": "middle" }, TEXTS[plot.x.unit](value));
  }
  element(svg, "text", { x: right, y: height - 6, "text-anchor": "end" }, plot.x.name);
  element(svg, "text", { x: 2, y: top - 11 }, plot.y.name);
  for (const layer of [...plot.layers].reverse()) drawLayer(svg, layer, layer.points.map(([x, y]) => [across(x), up(y)]), bottom);
  (plot.rules || []).forEach((rule, row) => {
    const at = rule.axis === "x" ? across(rule.at) : up(rule.at);
    element(svg, "path", { class: `rule ${rule.style}`, d: rule.axis === "x" ? `M${at} ${top}V${bottom}` : `M${left} ${at}H${right}` });
    const isEnd = at > width * 0.7;
    const spot = rule.axis === "x" ? { x: at + (isEnd ? -4 : 4), y: top + 12 + 15 * row } : { x: left + 6, y: at - 5 };
    const anchor = rule.axis === "x" && isEnd ? "end" : "start";
    element(svg, "text", { class: `note ${rule.style}`, "text-anchor": anchor, ...spot }, rule.text);
  });
  host.replaceChildren(svg);
  hover(host, svg, plot, across, up);
}

function drawLayer(svg, layer, points, bottom) {
  if (!points.length || layer.mark === "none") return;
  if (layer.mark === "bars") {
    const step = points.length > 1 ? points[1][0] - points[0][0] : 8;
    for (const [x, y] of points.filter((point) => point[1] < bottom))
      element(svg, "rect", { class: `bar ${layer.style}`, x: x - step / 2, y, width: Math.max(step - 1, 0.5), height: bottom - y });
    return;
  }
  const line = points.map((point) => point.join(" ")).join("L");
  const steps = {
    line: () => `M${line}`,
    area: () => `M${points[0][0]} ${bottom}L${line}V${bottom}Z`,
    cross: () => points.map(([x, y]) => `M${x - 3} ${y - 3}l6 6m0 -6l-6 6`).join(""),
  };
  const dots = () => points.map(([x, y]) => `M${x} ${y}h0`).join(""); // in one path: thousands of them stay small
  element(svg, "path", { class: `${layer.mark} ${layer.style}`, d: (steps[layer.mark] || dots)() });
}

// Shows the values of the points nearest to the pointer.
function hover(host, svg, plot, across, up) {
  const layers = plot.layers.filter((layer) => layer.name && layer.points.length);
  if (!layers.length) return;
  const pin = element(svg, "g", {});
  const tip = host.appendChild(Object.assign(document.createElement("div"), { className: "tip", hidden: true }));
  const show = (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    const distance = (point) => Math.abs(across(point[0]) - x);
    const found = layers.map((layer) => layer.points.reduce((a, b) => (distance(b) < distance(a) ? b : a)));
    const at = across(found[0][0]);
    pin.replaceChildren();
    element(pin, "path", { class: "pin", d: `M${at} ${MARGIN.top}V${svg.viewBox.baseVal.height - MARGIN.bottom}` });
    for (const point of found) element(pin, "circle", { class: "bead", cx: across(point[0]), cy: up(point[1]), r: 3.5 });
    const texts = found.map((point) => `${TEXTS[plot.x.unit](point[0])}: ${TEXTS[plot.y.unit](point[1])}`);
    tip.textContent = texts.map((text, number) => (layers.length > 1 ? `${layers[number].name}  ${text}` : text)).join("\n");
    tip.hidden = false;
    tip.style.left = `${Math.max(0, Math.min((at / svg.viewBox.baseVal.width) * box.width + 12, host.clientWidth - tip.offsetWidth))}px`;
  };
  const hide = () => {
    pin.replaceChildren();
    tip.hidden = true;
  };
  for (const name of ["pointermove", "pointerdown"]) svg.addEventListener(name, show);
  svg.addEventListener("pointerleave", hide);
}

for (const host of document.querySelectorAll("div.plot")) {
  const plot = JSON.parse(host.parentElement.querySelector("script").textContent);
  let width = 0;
  new ResizeObserver(() => {
    if (host.clientWidth !== width) draw(host, plot);
    width = host.clientWidth;
  }).observe(host);
  draw(host, plot);
  width = host.clientWidth;
}
