import type { ChangeStream, ChangeStreamDocument } from "mongodb";
import type { RunChange, WhatChanged } from "../../../core/runs/operation.js";
import { type Backoff, backoffMs } from "../../../core/work/backoff.js";
import type { Collections } from "../layout.js";

/** Runs that are new, have new mail or a longer stream, or lost their owner: changes that another process may wait for. */
const interesting = [
  {
    $match: {
      $or: [
        // "replace": MongoDB may report an update of most of a document as a replacement.
        { operationType: { $in: ["insert", "replace"] } },
        { "updateDescription.updatedFields.mail": { $exists: true } },
        { "updateDescription.removedFields": "owner" },
        { "updateDescription.updatedFields.grown": { $exists: true } },
      ],
    },
  },
  {
    $project: {
      documentKey: 1,
      operationType: 1,
      "updateDescription.updatedFields.grown": 1,
      "updateDescription.updatedFields.mail": 1,
      "updateDescription.removedFields": 1,
    },
  },
];

const openBackoff: Backoff = { minMs: 100, maxMs: 5000 };

export interface RunWatch {
  watch(changed: (run: RunChange, what?: WhatChanged) => void): () => void;
  close(): Promise<void>;
}

/**
 * One change stream for all watchers, open while there is one. When it breaks, all watchers are notified, so that they poll, and it
 * is opened again.
 */
export function createRunWatch({ runs }: Collections): RunWatch {
  const watchers = new Set<{ readonly changed: (run: RunChange, what?: WhatChanged) => void }>();
  let stream: ChangeStream | undefined;
  let timer: NodeJS.Timeout | undefined;
  /** Failures since the last change that was received. */
  let failures = 0;
  let closed = false;

  const notify = (run: RunChange, what: WhatChanged = "run") => {
    for (const { changed } of watchers) changed(run, what);
  };

  function start(): void {
    if (closed || stream !== undefined || watchers.size === 0) return;
    const opened: ChangeStream = runs.watch(interesting, { maxAwaitTimeMS: 1000 });
    stream = opened;
    opened.on("change", (event) => {
      failures = 0;
      notify("documentKey" in event ? String(event.documentKey?._id) : null, isOnlyGrown(event) ? "chunks" : "run");
    });
    opened.on("error", () => restart(opened));
    opened.on("close", () => restart(opened));
  }

  function restart(broken: ChangeStream): void {
    if (stream !== broken) return;
    stop();
    if (closed) return;
    // Changes may have been missed: notify all watchers.
    notify(null);
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

function isOnlyGrown(event: ChangeStreamDocument): boolean {
  if (event.operationType !== "update") return false;
  const { updatedFields = {}, removedFields = [] } = event.updateDescription ?? {};
  return "grown" in updatedFields && !("mail" in updatedFields) && !removedFields.includes("owner");
}
