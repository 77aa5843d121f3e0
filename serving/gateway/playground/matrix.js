// Weights as a matrix of squares: a row a token of the answer, a column what it read.

import { element } from "./dom.js";
import { framed, legend } from "./heat.js";
import { visible } from "./tokens.js";

const CELL = 22;
const LABEL = 26;
const LABELLED = 14; // smaller squares have no labels
const MOST_PIXELS = 4096; // of the longer side: long texts get smaller squares

export class Matrix {
  constructor(across, down, onPoint) {
    this.canvas = element("canvas", { role: "img" });
    this.canvas.addEventListener("pointermove", (event) => {
      const column = Math.floor((event.offsetX - LABEL) / this.cell);
      const row = Math.floor((event.offsetY - LABEL) / this.cell);
      const inside = this.rows?.[row] && column >= 0 && column < this.columns.length;
      onPoint(inside ? row : null, inside ? column : null);
    });
    this.canvas.addEventListener("pointerleave", () => onPoint(null, null));
    const scroll = element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Alignment matrix" }, this.canvas);
    this.legend = element("figcaption", { className: "legend" });
    this.element = element("figure", { className: "matrix", hidden: true }, framed(scroll, `${across} →`, `${down} →`), this.legend);
  }

  draw(rows, columns, weights, chosen = [null, null]) {
    Object.assign(this, { rows, columns });
    this.element.hidden = !rows.length;
    const cell = (this.cell = Math.min(CELL, Math.max(Math.floor(MOST_PIXELS / Math.max(columns.length, rows.length, 1)), 1)));
    const [width, height] = [LABEL + columns.length * cell + 2, LABEL + rows.length * cell + 2];
    const density = Math.max(width, height) > MOST_PIXELS / 2 ? 1 : window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * density, height: height * density });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    this.canvas.setAttribute("aria-label", `Alignment of ${rows.length} tokens to ${columns.length} positions`);
    const pen = this.canvas.getContext("2d");
    pen.scale(density, density);
    const style = getComputedStyle(this.canvas);
    const [ink, line, glow] = ["--ink", "--sunken", "--glow"].map((name) => style.getPropertyValue(name));
    Object.assign(pen, { font: `13px ${style.fontFamily}`, textAlign: "center", textBaseline: "middle", fillStyle: ink });
    if (cell >= LABELLED) {
      columns.forEach((text, at) => pen.fillText(visible(text).slice(0, 2), LABEL + (at + 0.5) * cell, LABEL / 2));
      rows.forEach((text, at) => pen.fillText(visible(text).slice(0, 2), LABEL / 2, LABEL + (at + 0.5) * cell));
    }
    const gap = cell > 4 ? 1 : 0;
    weights.forEach((row, y) => row.forEach((weight, x) => {
      const corner = [LABEL + x * cell + gap, LABEL + y * cell + gap, cell - 2 * gap, cell - 2 * gap];
      Object.assign(pen, { globalAlpha: 1, fillStyle: line });
      pen.fillRect(...corner);
      Object.assign(pen, { globalAlpha: Math.min(weight, 1), fillStyle: glow });
      pen.fillRect(...corner);
    }));
    this.legend.replaceChildren(...legend(0, 1, "attention: the share of a row that each column has",
      `linear-gradient(to right, ${line}, ${glow})`));
    if (chosen[0] === null) return;
    Object.assign(pen, { globalAlpha: 1, strokeStyle: ink, lineWidth: 1.5 });
    const [left, wide] = chosen[1] === null ? [LABEL, columns.length * cell] : [LABEL + chosen[1] * cell, cell];
    pen.strokeRect(left, LABEL + chosen[0] * cell, wide, cell);
  }
}
