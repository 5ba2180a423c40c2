import type { RunBackend, RunChange } from "../../../core/runs/operation.js";
import type { Clock } from "../../../core/work/clock.js";
import type { SqliteDatabase } from "../driver.js";

const lookEveryMs = 25;

export interface RunWatch {
  readonly watch: RunBackend["watch"];
  readonly notify: (run: string) => void;
  readonly close: () => void;
}

/**
 * Polls `PRAGMA data_version`, which changes when another connection has written to the file: SQLite has no notifications
 * between processes. A poll costs a few microseconds, and there are none without a watcher.
 */
export function createRunWatch(database: SqliteDatabase, clock: Clock): RunWatch {
  const version = database.prepare("PRAGMA data_version");
  const read = () => (version.get() as { data_version: number }).data_version;
  const watchers = new Set<{ readonly changed: (run: RunChange) => void }>();
  let cancel: (() => void) | undefined;
  let seen: number | undefined;

  function look(): void {
    cancel = clock.after(lookEveryMs, look, true);
    const before = seen;
    try {
      seen = read();
    } catch {
      // Another process recovers the file, or the disk failed: the next poll tries again.
      return;
    }
    if (before !== undefined && seen !== before) notify(null);
  }

  function notify(run: RunChange): void {
    for (const { changed } of watchers) changed(run);
  }

  function stop(): void {
    cancel?.();
    cancel = undefined;
    seen = undefined;
  }

  return {
    watch(changed) {
      const watcher = { changed };
      watchers.add(watcher);
      if (cancel === undefined) look();
      return () => {
        if (watchers.delete(watcher) && watchers.size === 0) stop();
      };
    },
    notify,
    close() {
      watchers.clear();
      stop();
    },
  };
}
