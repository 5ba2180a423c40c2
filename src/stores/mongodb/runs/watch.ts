import type { ChangeStreamDocument } from "mongodb";
import type { RunChange, WhatChanged } from "../../../core/runs/operation.js";
import { openWatch } from "../connection/watch.js";
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

export interface RunWatch {
  watch(changed: (run: RunChange, what?: WhatChanged) => void): () => void;
  close(): Promise<void>;
}

export function createRunWatch({ runs }: Collections): RunWatch {
  const { watch, close } = openWatch(runs, interesting);
  return {
    close,
    watch: (changed) =>
      watch((event) => {
        if (event === undefined) return changed(null, "run");
        changed("documentKey" in event ? String(event.documentKey?._id) : null, isOnlyGrown(event) ? "chunks" : "run");
      }),
  };
}

function isOnlyGrown(event: ChangeStreamDocument): boolean {
  if (event.operationType !== "update") return false;
  const { updatedFields = {}, removedFields = [] } = event.updateDescription ?? {};
  return "grown" in updatedFields && !("mail" in updatedFields) && !removedFields.includes("owner");
}
