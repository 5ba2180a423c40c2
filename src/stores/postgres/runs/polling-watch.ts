import type { RunChange, WhatChanged } from "../../../core/runs/operation.js";

const everyMs = 250;

/** A watch without LISTEN: while there is a watcher, it reports every 250 ms that something may have changed. */
export class PollingWatch {
  readonly #watchers = new Set<{ readonly changed: (run: RunChange, what?: WhatChanged) => void }>();
  #timer: NodeJS.Timeout | undefined;

  watch(changed: (run: RunChange, what?: WhatChanged) => void): () => void {
    // One object per call: the same function may be added twice and removed once.
    const watcher = { changed };
    this.#watchers.add(watcher);
    this.#timer ??= setInterval(() => this.#notify(), everyMs).unref();
    return () => {
      if (this.#watchers.delete(watcher) && this.#watchers.size === 0) this.#stop();
    };
  }

  async close(): Promise<void> {
    this.#watchers.clear();
    this.#stop();
  }

  #notify(): void {
    for (const { changed } of this.#watchers) changed(null);
  }

  #stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
