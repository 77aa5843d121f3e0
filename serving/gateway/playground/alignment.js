// Tokens that light what they read, and the whole as a matrix: of a translation the source, of a continuation all before.

import { element } from "./dom.js";
import { Matrix } from "./matrix.js";
import { strongest, TokenRow } from "./tokens.js";

export class Alignment {
  constructor(card) {
    this.explains = card.explains.includes("alignment");
    this.isCausal = card.task === "generate"; // then a token reads those of its own answer, too
    const from = this.isCausal ? "Prompt" : "Source";
    this.source = new TokenRow(from, (number) => this.pointRead(number));
    this.target = new TokenRow("Answer", (number) => this.pointTarget(number));
    this.matrix = new Matrix(this.isCausal ? "tokens before" : "source tokens", "answer tokens",
      (row, column) => (row === null ? this.dark() : this.pointTarget(row, column)));
    this.whole = element("p", { className: "visually-hidden", "aria-live": "polite" });
    this.note = element("p", { className: "note", role: "status" });
    this.sourceTitle = element("h3", {}, from);
    this.element = element("div", { className: "stack" }, this.target.element,
      this.sourceTitle, this.source.element, this.note, this.matrix.element, this.whole);
    this.clear();
  }

  clear() {
    this.rows = [];
    this.source.set([]);
    this.target.set([]);
    this.matrix.draw([], [], []);
    this.sourceTitle.hidden = true;
    this.note.textContent = "";
  }

  // One event of a stream: what is read, and the tokens that come with what each read.
  add(said) {
    if (said.source) this.source.set(said.source);
    this.sourceTitle.hidden = !this.source.texts.length;
    for (const row of said.alignment ?? []) this.rows.push(row.slice(0, this.readable));
    for (const token of said.tokens ?? [said.text].filter(Boolean)) this.target.add(token);
  }

  done() {
    this.whole.textContent = `Answer: ${this.target.texts.join("")}`;
    this.dark();
  }

  // How many tokens the next row can read: rows that come together are as wide as the last of them.
  get readable() {
    return this.isCausal ? this.source.texts.length + this.rows.length : undefined;
  }

  // The texts of what a row's weights stand for.
  get columns() {
    const own = this.isCausal ? this.target.texts.slice(0, Math.max(this.target.texts.length - 1, 0)) : [];
    return [...this.source.texts, ...own];
  }

  dark() {
    this.source.light(null);
    this.target.light(null);
    this.draw();
    this.note.textContent = this.rows.length ? "Point at a token to see what it read." : "";
  }

  draw(chosen) {
    if (this.rows.length) this.matrix.draw(this.target.texts, this.columns, this.rows, chosen);
  }

  pointTarget(number, column = null) {
    if (number === null || !this.rows[number]) return this.dark();
    const [row, count] = [this.rows[number], this.source.texts.length];
    const most = Math.max(...row);
    this.source.light(row.slice(0, count), column, most);
    this.target.light(this.isCausal ? row.slice(count) : null, number, most);
    this.draw([number, column]);
    const words = strongest(row, this.columns);
    this.note.textContent = words ? `It read ${words}.` : "It read no token much.";
    return null;
  }

  // A token that is read; of an answer it is pointed at by what it read itself.
  pointRead(number) {
    if (number === null || !this.rows.length) return this.dark();
    const weights = this.rows.map((row) => row[number]);
    this.target.light(weights, null);
    this.source.light(null, number);
    const words = strongest(weights, this.target.texts);
    this.note.textContent = words ? `It was read by ${words}.` : "No token read it much.";
    return null;
  }
}
