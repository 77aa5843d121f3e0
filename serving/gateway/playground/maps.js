// Maps over an image: which kind, which layer, which head, and all of them in small to choose from.

import { choice, element, field, press, select } from "./dom.js";
import { drawGrid, drawOverlay, framed, legend, mean, nameAxes } from "./heat.js";

const KINDS = {
  rollout: ["Rollout", "All layers multiplied: how much of each patch reaches the answer."],
  attention: ["Attention", "What the class token looks at, in one layer and head."],
  received: ["Windows", "How much attention each place gets within its window, in one layer."],
  occlusion: ["Evidence", "What the answer loses where the image is blanked. Press a label to see what speaks for it."],
};
const TITLES = { received: "Every layer", occlusion: "Each of the most probable labels" };
const UNITS = {
  rollout: "share of the answer", attention: "attention", received: "attention", occlusion: "lost probability",
};
const MEAN = "mean";

export class Maps {
  constructor(card, onKind) {
    this.kind = card.explains[0];
    this.layer = this.head = this.label = null;
    this.onKind = onKind;
    const kinds = card.explains.map((kind) => [kind, KINDS[kind][0]]);
    this.kinds = choice("What is shown over the image", kinds, this.kind, (kind) => {
      this.kind = kind;
      this.label = this.layer = this.head = null;
      this.onKind();
    });
    this.canvas = element("canvas", { width: 256, height: 256, className: "overlay", role: "img", "aria-label": "No map yet" });
    this.caption = element("figcaption", { "aria-live": "polite" });
    this.controls = element("div", { className: "map-controls" });
    this.legend = element("p", { className: "legend" });
    this.grid = element("div", { className: "thumbnails", role: "group", "aria-label": "All maps of this kind" });
    this.title = element("h3", {});
    this.small = element("div", { className: "stack small", hidden: true }, this.title, this.grid);
    this.framed = framed(this.canvas, "", "");
    this.element = element("figure", { className: "maps", hidden: true }, this.kinds, this.framed, this.legend, this.caption,
      this.controls);
  }

  // Choose a kind without asking for its maps.
  setKind(kind) {
    this.kind = kind;
    press(this.kinds, kind);
  }

  // Show the maps of an image, of the chosen kind.
  draw(image, maps) {
    this.image = image;
    this.maps = maps;
    this.element.hidden = false;
    this.layers = [...new Set(this.maps.map((map) => map.layer).filter(Boolean))];
    this.heads = [...new Set(this.maps.map((map) => map.head).filter(Boolean))];
    if (!this.layers.includes(this.layer)) this.layer = this.layers.at(-1) ?? null;
    if (this.head !== MEAN && !this.heads.includes(this.head)) this.head = this.heads.length ? MEAN : null;
    const label = this.label?.title ?? this.label;
    this.label = this.maps.some((map) => map.title === label) ? label : null;
    this.showControls();
    this.show();
  }

  // Show what speaks for a label: its name, of which the most probable is meant, or one of the maps.
  showLabel(label) {
    this.label = label;
    if (this.kind === "occlusion") return this.show();
    this.kinds.querySelector("[value=occlusion]").click();
    this.label = label;
    return null;
  }

  showControls() {
    const controls = [];
    if (this.layers.length) {
      const layers = this.layers.map((layer) => [String(layer), `${layer} of ${this.layers.length}`]);
      controls.push(field("Layer", select(layers, String(this.layer), (layer) => this.choose(Number(layer), this.head))));
    }
    if (this.heads.length) {
      const heads = [[MEAN, "mean of heads"], ...this.heads.map((head) => [String(head), `head ${head}`])];
      const chosen = (head) => this.choose(this.layer, head === MEAN ? MEAN : Number(head));
      controls.push(field("Head", select(heads, String(this.head), chosen)));
    }
    this.controls.replaceChildren(...controls);
    this.controls.hidden = !controls.length;
    this.small.hidden = this.maps.length < 2;
    this.title.textContent = this.heads.length ? "Every layer (down) and head (across)" : TITLES[this.kind] ?? "";
    this.grid.style.setProperty("--columns", this.heads.length || Math.min(this.maps.length, 5));
    this.grid.replaceChildren(...this.maps.map((map) => this.thumbnail(map)));
  }

  thumbnail(map) {
    const canvas = element("canvas", { width: 64, height: 64, "aria-hidden": "true" });
    drawOverlay(canvas, this.image, map.values);
    const name = this.kind === "occlusion" ? `evidence for ${map.title}` : map.title;
    const press = () => (this.kind === "occlusion" ? this.showLabel(map) : this.choose(map.layer, map.head));
    return element("button", { type: "button", title: name, "aria-label": name, onclick: press }, canvas);
  }

  choose(layer, head) {
    Object.assign(this, { layer, head });
    this.showControls();
    this.show();
  }

  show() {
    const fits = (map) =>
      (this.layer === null || map.layer === this.layer) && (this.head === MEAN || this.head === null || map.head === this.head);
    const evidence = () => this.maps.find((map) => map === this.label || map.title === (this.label ?? this.maps[0].title));
    const shown = this.kind === "occlusion" ? [evidence()] : this.maps.filter(fits);
    const values = mean(shown.map((map) => map.values));
    drawOverlay(this.canvas, this.image, values);
    drawGrid(this.canvas, values);
    this.showLegend(values);
    const title = this.kind === "occlusion" ? `Evidence for ${shown[0].title}.` : this.titleOf(shown);
    this.canvas.setAttribute("aria-label", `${title.slice(0, -1)}, as colours over the image`);
    this.caption.replaceChildren(element("strong", {}, title), ` ${KINDS[this.kind][1]}`);
    [...this.grid.children].forEach((button, at) => {
      button.setAttribute("aria-pressed", String(shown.includes(this.maps[at])));
    });
  }

  // What the colours stand for, in numbers, and how many places the map really has.
  showLegend(values) {
    const flat = values.flat();
    const [rows, columns] = [values.length, values[0].length];
    this.legend.replaceChildren(...legend(Math.min(...flat), Math.max(...flat), `${UNITS[this.kind]}, ${rows} × ${columns} places`));
    nameAxes(this.framed, values);
  }

  titleOf(shown) {
    if (this.kind === "rollout") return "Rollout.";
    return shown.length > 1 ? `Layer ${this.layer}, mean of ${shown.length} heads.` : `${capital(shown[0].title)}.`;
  }
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
