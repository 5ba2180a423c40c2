import type { RunBackend, RunChange } from "../../../core/runs/operation.js";
import type { Clock } from "../../../core/work/clock.js";
import type { SqliteDatabase } from "../driver.js";

const lookEveryMs = 25;

export interface RunWatch {
  readonly watch: RunBackend["watch"];
  readonly tell: (run: string) => void;
  readonly close: () => void;
}

/**
 * SQLite has no messages between processes, but counts: the number changes when another connection has written to the
 * file, and not when this one has. Asking costs a few microseconds, and nobody asks while nobody watches.
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
      // Somebody recovers the file, or the disk has failed. Looked at again next time.
      return;
    }
    if (before !== undefined && seen !== before) tell(null);
  }

  function tell(run: RunChange): void {
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
    tell,
    close() {
      watchers.clear();
      stop();
    },
  };
}
