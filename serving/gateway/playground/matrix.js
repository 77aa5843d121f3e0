// An alignment as a matrix of squares: a row a token of the answer, a column a position of the source.

import { element } from "./dom.js";
import { visible } from "./tokens.js";

const CELL = 22;
const LABEL = 26;

export class Matrix {
  constructor(onPoint) {
    this.canvas = element("canvas", { role: "img" });
    this.canvas.addEventListener("pointermove", (event) => {
      const column = Math.floor((event.offsetX - LABEL) / CELL);
      const row = Math.floor((event.offsetY - LABEL) / CELL);
      const inside = this.rows?.[row] && column >= 0 && column < this.columns.length;
      onPoint(inside ? row : null, inside ? column : null);
    });
    this.canvas.addEventListener("pointerleave", () => onPoint(null, null));
    this.element = element("figure", { className: "matrix", hidden: true },
      element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Alignment matrix" }, this.canvas),
      element("figcaption", {}, "Rows: tokens of the answer. Columns: the source. The stronger, the more it was read."));
  }

  draw(rows, columns, weights, chosen = [null, null]) {
    Object.assign(this, { rows, columns });
    this.element.hidden = !rows.length;
    const [width, height] = [LABEL + columns.length * CELL + 2, LABEL + rows.length * CELL + 2];
    const density = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * density, height: height * density });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    this.canvas.setAttribute("aria-label", `Alignment of ${rows.length} tokens to ${columns.length} positions`);
    const pen = this.canvas.getContext("2d");
    pen.scale(density, density);
    const style = getComputedStyle(this.canvas);
    const [ink, line, glow] = ["--ink", "--sunken", "--glow"].map((name) => style.getPropertyValue(name));
    Object.assign(pen, { font: `13px ${style.fontFamily}`, textAlign: "center", textBaseline: "middle", fillStyle: ink });
    columns.forEach((text, at) => pen.fillText(visible(text).slice(0, 2), LABEL + (at + 0.5) * CELL, LABEL / 2));
    rows.forEach((text, at) => pen.fillText(visible(text).slice(0, 2), LABEL / 2, LABEL + (at + 0.5) * CELL));
    weights.forEach((row, y) => row.forEach((weight, x) => {
      const corner = [LABEL + x * CELL + 1, LABEL + y * CELL + 1, CELL - 2, CELL - 2];
      Object.assign(pen, { globalAlpha: 1, fillStyle: line });
      pen.fillRect(...corner);
      Object.assign(pen, { globalAlpha: Math.min(weight * 1.1, 1), fillStyle: glow });
      pen.fillRect(...corner);
    }));
    if (chosen[0] === null) return;
    Object.assign(pen, { globalAlpha: 1, strokeStyle: ink, lineWidth: 1.5 });
    const [left, wide] = chosen[1] === null ? [LABEL, columns.length * CELL] : [LABEL + chosen[1] * CELL, CELL];
    pen.strokeRect(left, LABEL + chosen[0] * CELL, wide, CELL);
  }
}
