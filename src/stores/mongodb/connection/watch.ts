import type { ChangeStream, ChangeStreamDocument, Collection, Document } from "mongodb";
import { type Backoff, backoffMs } from "../../../core/work/backoff.js";

const openBackoff: Backoff = { minMs: 100, maxMs: 5000 };

/** A change that was received. Undefined: changes may have been missed. */
type Changed = (event: ChangeStreamDocument | undefined) => void;

export interface CollectionWatch {
  /** Returns a function that ends it. */
  watch(changed: Changed): () => void;
  close(): Promise<void>;
}

/**
 * One change stream for all watchers of a collection, open while there is one. When it breaks, all watchers are notified, so that they
 * poll, and it is opened again. `pipeline` selects the changes.
 */
export function openWatch<Row extends Document>(collection: Collection<Row>, pipeline: Document[]): CollectionWatch {
  const watchers = new Set<{ readonly changed: Changed }>();
  let stream: ChangeStream | undefined;
  let timer: NodeJS.Timeout | undefined;
  /** Failures since the last change that was received. */
  let failures = 0;
  let closed = false;

  const notify = (event: ChangeStreamDocument | undefined) => {
    for (const { changed } of watchers) changed(event);
  };

  function start(): void {
    if (closed || stream !== undefined || watchers.size === 0) return;
    const opened: ChangeStream = collection.watch(pipeline, { maxAwaitTimeMS: 1000 }) as ChangeStream;
    stream = opened;
    opened.on("change", (event) => {
      failures = 0;
      notify(event);
    });
    opened.on("error", () => restart(opened));
    opened.on("close", () => restart(opened));
  }

  function restart(broken: ChangeStream): void {
    if (stream !== broken) return;
    stop();
    if (closed) return;
    // Changes may have been missed: notify all watchers.
    notify(undefined);
    failures += 1;
    timer = setTimeout(start, backoffMs(openBackoff, failures));
  }

  function stop(): void {
    clearTimeout(timer);
    const ending = stream;
    stream = undefined;
    ending?.removeAllListeners();
    ending?.on("error", () => {});
    void ending?.close().catch(() => {});
  }

  return {
    watch(changed) {
      const watcher = { changed };
      watchers.add(watcher);
      start();
      return () => {
        watchers.delete(watcher);
        if (watchers.size === 0) stop();
      };
    },
    async close() {
      closed = true;
      watchers.clear();
      stop();
    },
  };
}
