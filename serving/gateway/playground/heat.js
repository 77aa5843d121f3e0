// Maps as colours: over an image, and as a matrix. The ramp is that of serving/gateway/explain/drawing.py.

import { element } from "./dom.js";

const INFERNO = ["000004", "1b0c41", "4a0c6b", "781c6d", "a52c60", "cf4446", "ed6925", "fb9b06", "f7d13d", "fcffa4"];
const RAMP = INFERNO.map((colour) => [0, 2, 4].map((at) => parseInt(colour.slice(at, at + 2), 16)));

export function heatColour(share) {
  const place = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
  const low = Math.min(Math.floor(place), RAMP.length - 2);
  return RAMP[low].map((channel, at) => channel + (RAMP[low + 1][at] - channel) * (place - low));
}

const INFERNO_BAR = `linear-gradient(to right, ${RAMP.map((colour) => `rgb(${colour.join(" ")})`).join(", ")})`;

// What colours stand for: a bar of them between its two numbers, and what is counted.
export function legend(least, most, text, colours = INFERNO_BAR) {
  const ramp = element("span", { className: "ramp", "aria-hidden": "true" });
  ramp.style.backgroundImage = colours;
  const number = (value) => element("span", { className: "number" }, Number.isInteger(value) ? String(value) : value.toPrecision(2));
  const said = (words) => element("span", { className: "visually-hidden" }, words);
  return [said("Colours from "), number(least), ramp, said(" to "), number(most), element("span", {}, text)];
}

// A map between the names of its axes.
export function framed(map, across, down) {
  return element("div", { className: "framed" }, element("span", { className: "axis across" }, across),
    element("span", { className: "axis down" }, down), map);
}

// Name the axes of a map over an image by its patches.
export function nameAxes(frame, values) {
  frame.children[0].textContent = `patch columns 1 to ${values[0].length} →`;
  frame.children[1].textContent = `patch rows 1 to ${values.length} →`;
}

// The places of a map, drawn over it: each is one patch or window of what the model sees.
export function drawGrid(canvas, values) {
  const pen = canvas.getContext("2d");
  pen.fillStyle = "rgb(255 255 255 / 22%)";
  const [rows, columns] = [values.length, values[0].length];
  const { width, height } = canvas;
  for (let row = 1; row < rows; row += 1) pen.fillRect(0, Math.round((row * height) / rows), width, 1);
  for (let column = 1; column < columns; column += 1) pen.fillRect(Math.round((column * width) / columns), 0, 1, height);
}

// Rows of numbers, from the least to the most, as 0 to 1.
export function scaled(values) {
  const flat = values.flat();
  const least = Math.min(...flat);
  const span = Math.max(Math.max(...flat) - least, 1e-12);
  return values.map((row) => row.map((value) => (value - least) / span));
}

export function mean(maps) {
  return maps[0].map((row, y) => row.map((_, x) => maps.reduce((sum, map) => sum + map[y][x], 0) / maps.length));
}

// Draw an image in grey, and a map over it: the more the map has of a place, the more colour.
export function drawOverlay(canvas, image, values) {
  const { width, height } = canvas;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.drawImage(image, 0, 0, width, height);
  if (!values) return;
  const under = pen.getImageData(0, 0, width, height);
  const over = enlarged(scaled(values), width, height);
  for (let pixel = 0; pixel < over.length; pixel += 1) {
    const at = 4 * pixel;
    const grey = 0.299 * under.data[at] + 0.587 * under.data[at + 1] + 0.114 * under.data[at + 2];
    const share = 0.1 + 0.75 * over[pixel];
    heatColour(over[pixel]).forEach((channel, c) => {
      under.data[at + c] = grey * (1 - share) + channel * share;
    });
  }
  pen.putImageData(under, 0, 0);
}

// Bicubic (Catmull and Rom), between the middles of the map's places: down its columns, then across its rows.
function enlarged(values, width, height) {
  const [rows, columns] = [values.length, values[0].length];
  const tall = places(height, rows).map((taps) => values[0].map((_, x) => sum(taps, (row) => values[row][x])));
  const across = places(width, columns);
  const out = new Float32Array(width * height);
  tall.forEach((row, y) => across.forEach((taps, x) => {
    out[y * width + x] = Math.min(Math.max(sum(taps, (column) => row[column]), 0), 1);
  }));
  return out;
}

const sum = (taps, valueAt) => taps.reduce((total, [place, weight]) => total + weight * valueAt(place), 0);

// For each pixel the four places around it, with their weights; those beyond the edge are the edge's.
function places(pixels, count) {
  return Array.from({ length: pixels }, (_, pixel) => {
    const at = ((pixel + 0.5) * count) / pixels - 0.5;
    const low = Math.floor(at);
    return [-1, 0, 1, 2].map((step) => [Math.min(Math.max(low + step, 0), count - 1), weight(Math.abs(at - low - step))]);
  });
}

const weight = (far) => (far < 1 ? 1.5 * far ** 3 - 2.5 * far ** 2 + 1 : -0.5 * far ** 3 + 2.5 * far ** 2 - 4 * far + 2);
