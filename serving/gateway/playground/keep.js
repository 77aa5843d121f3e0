// What each model was asked last and what it answered, for as long as this tab is open: in sessionStorage, and bounded.

const PREFIX = "attendant-answer:";
const MOST = 1 << 19; // characters of one answer: larger ones are not kept
const MOST_IN_ALL = 1 << 21; // the oldest are forgotten first

let forgotten = 0; // how often all was forgotten

export class Keeper {
  // `card`: of the model; what a card of another task kept under its name is not shown. What is asked before all is
  // forgotten is not kept after it.
  constructor(card) {
    this.since = forgotten;
    this.name = PREFIX + card.id;
    this.task = card.task;
  }

  keep(value) {
    if (this.since !== forgotten) return;
    const text = JSON.stringify({ task: this.task, at: Date.now(), value });
    this.forget();
    if (text.length > MOST) return;
    const others = names().map((name) => ({ name, ...read(name) })).sort((one, other) => one.at - other.at);
    let whole = others.reduce((sum, one) => sum + one.size, text.length);
    for (const { name, size } of others) {
      if (whole <= MOST_IN_ALL) break;
      sessionStorage.removeItem(name);
      whole -= size;
    }
    try {
      sessionStorage.setItem(this.name, text);
    } catch {
      // no room: then it is not kept
    }
  }

  forget() {
    sessionStorage.removeItem(this.name);
  }

  get value() {
    const { task, value } = read(this.name);
    return task === this.task ? value : null;
  }

  // Hands what was kept to `show`, if there is anything; returns whether there is. What cannot be shown is forgotten.
  restore(show) {
    const value = this.value;
    if (!value) return false;
    const shown = async () => show(value);
    shown().catch(() => this.forget());
    return true;
  }
}

export function forgetAll() {
  forgotten += 1;
  names().forEach((name) => sessionStorage.removeItem(name));
}

const names = () => Object.keys(sessionStorage).filter((name) => name.startsWith(PREFIX));

function read(name) {
  const text = sessionStorage.getItem(name) ?? "{}";
  try {
    return { at: 0, ...JSON.parse(text), size: text.length };
  } catch {
    return { at: 0, size: text.length };
  }
}
