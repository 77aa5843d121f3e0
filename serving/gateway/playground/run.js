// One question at a time: a new one takes the last one back, and so does leaving the view.

import { hideFailure, showFailure } from "./failure.js";

export class Runner {
  constructor(leaving, onBusy = () => {}) {
    this.onBusy = onBusy;
    leaving.addEventListener("abort", () => this.stop());
  }

  stop() {
    this.current?.abort();
  }

  // `work` gets a signal; what it raises is shown.
  async run(work) {
    this.stop();
    const current = (this.current = new AbortController());
    hideFailure();
    this.onBusy(true);
    try {
      await work(current.signal);
    } catch (error) {
      if (!current.signal.aborted) showFailure(error);
    } finally {
      if (this.current === current) this.onBusy(false);
    }
  }
}
