// A drawing board: by mouse, finger, pen or keyboard, or with an image dropped on it.

import { element, freshId, showAnswer } from "./dom.js";
import { digitIn } from "./strokes.js";

const SIDE = 320;
const STEPS = 20; // places of the keyboard's pen, across and down
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const PAUSE_MS = 250; // without a stroke, before the drawing counts as done

export class Board {
  // `imageSide`: of the image that the model sees; `boxes`: left, top and side of where sample digits go.
  constructor(imageSide, boxes, onChange) {
    this.boxes = boxes;
    this.onChange = onChange;
    this.penWidth = SIDE * Math.min(Math.max(0.95 / imageSide, 0.03), 0.12);
    this.place = [STEPS / 2, STEPS / 2];
    this.isDown = false;
    this.build(imageSide);
    this.clear(false);
  }

  get image() {
    return this.canvas.toDataURL("image/png");
  }

  build(imageSide) {
    const hint = element("p", { className: "hint", id: freshId("hint") },
      "Draw, drop an image here, or use the keyboard: arrows move the pen, space lowers and lifts it.");
    this.canvas = element("canvas", {
      width: SIDE, height: SIDE, tabIndex: 0, className: "board", role: "application",
      "aria-label": "Drawing board", "aria-describedby": hint.id,
    });
    this.canvas.dataset.param = "image";
    this.cursor = element("span", { className: "cursor", "aria-hidden": "true" });
    this.said = element("p", { className: "visually-hidden", role: "status" });
    const file = element("input", { type: "file", accept: "image/*", id: freshId("file"), className: "visually-hidden",
      onchange: () => this.load(file.files[0]) });
    const button = (text, act) => element("button", { type: "button", onclick: act }, text);
    const tools = element("div", { className: "tools" },
      button("Clear", () => this.clear()),
      imageSide <= 32 ? button("Sample", () => this.showSample()) : null,
      button("Invert", () => this.invert()),
      element("span", { className: "file" }, file, element("label", { htmlFor: file.id, className: "button" }, "Open image…")));
    const frame = element("div", { className: "board-frame" }, this.canvas, this.cursor);
    this.element = element("div", { className: "board-block field" }, frame, tools, hint, this.said);
    this.listen(frame);
  }

  listen(frame) {
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.last = this.at(event);
      this.line(this.last, this.last);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.last) return;
      const next = this.at(event);
      this.line(this.last, next);
      this.last = next;
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => this.lift());
    canvas.addEventListener("keydown", (event) => this.key(event));
    for (const kind of ["dragenter", "dragover"]) {
      frame.addEventListener(kind, (event) => {
        event.preventDefault();
        frame.classList.add("over");
      });
    }
    for (const kind of ["dragleave", "drop"]) frame.addEventListener(kind, () => frame.classList.remove("over"));
    frame.addEventListener("drop", (event) => {
      event.preventDefault();
      if (event.dataTransfer.files.length) this.load(event.dataTransfer.files[0]);
    });
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [((event.clientX - box.left) * SIDE) / box.width, ((event.clientY - box.top) * SIDE) / box.height];
  }

  line(from, to) {
    const pen = this.canvas.getContext("2d");
    Object.assign(pen, { strokeStyle: "white", lineWidth: this.penWidth, lineCap: "round", lineJoin: "round" });
    pen.beginPath();
    pen.moveTo(...from);
    pen.lineTo(...to);
    pen.stroke();
    this.changed();
  }

  lift() {
    this.last = null;
  }

  key(event) {
    const move = MOVES[event.key];
    if (move) {
      const from = this.point();
      this.place = this.place.map((at, axis) => Math.min(Math.max(at + move[axis], 1), STEPS - 1));
      if (this.isDown) this.line(from, this.point());
    } else if (event.key === " ") {
      this.isDown = !this.isDown;
      if (this.isDown) this.line(this.point(), this.point());
      this.say(this.isDown ? "pen down" : "pen up");
    } else if (event.key === "Delete" || event.key === "Backspace") {
      this.clear();
    } else {
      return;
    }
    event.preventDefault();
    this.showCursor();
  }

  point() {
    return this.place.map((at) => (at * SIDE) / STEPS);
  }

  showCursor() {
    const [left, top] = this.place.map((at) => `${(100 * at) / STEPS}%`);
    Object.assign(this.cursor.style, { left, top });
    this.cursor.classList.toggle("down", this.isDown);
  }

  clear(tell = true) {
    const pen = this.canvas.getContext("2d");
    pen.fillStyle = "black";
    pen.fillRect(0, 0, SIDE, SIDE);
    this.isDown = false;
    this.showCursor();
    clearTimeout(this.pausing);
    if (tell) this.say("cleared");
  }

  showSample() {
    this.sample();
    showAnswer();
  }

  sample() {
    this.clear(false);
    for (const [left, top, side] of this.boxes) {
      const digit = Math.floor(Math.random() * 10);
      for (const stroke of digitIn(digit, left, top, side)) {
        const points = stroke.map((point) => point.map((at) => at * SIDE));
        points.slice(1).forEach((point, at) => this.line(points[at], point));
      }
    }
  }

  invert() {
    const pen = this.canvas.getContext("2d");
    Object.assign(pen, { globalCompositeOperation: "difference", fillStyle: "white" });
    pen.fillRect(0, 0, SIDE, SIDE);
    pen.globalCompositeOperation = "source-over";
    this.changed();
  }

  // The middle of an image file, as large a square as fits.
  async load(file) {
    let picture;
    try {
      picture = await createImageBitmap(file);
    } catch {
      this.say(`${file?.name ?? "this file"} is no image that the browser can read`, true);
      return;
    }
    const side = Math.min(picture.width, picture.height);
    const [left, top] = [(picture.width - side) / 2, (picture.height - side) / 2];
    this.clear(false);
    this.canvas.getContext("2d").drawImage(picture, left, top, side, side, 0, 0, SIDE, SIDE);
    this.say(`${file.name} is on the board`);
    showAnswer();
    this.changed();
  }

  // The image of a data URL that `image` gave, without another answer to it.
  async restore(image) {
    const picture = new Image();
    picture.src = image;
    await picture.decode();
    this.canvas.getContext("2d").drawImage(picture, 0, 0, SIDE, SIDE);
  }

  say(text, visible = false) {
    this.said.textContent = text;
    this.said.className = visible ? "hint wrong" : "visually-hidden";
  }

  changed() {
    clearTimeout(this.pausing);
    this.pausing = setTimeout(() => (this.last ? this.changed() : this.onChange()), PAUSE_MS);
  }
}
