import { InvalidInputError } from "../../errors/errors.js";
import type { AttemptLeases } from "../../ledger/attempt-leases.js";
import type { Batch } from "../../ledger/operation.js";
import { type Backend, requirePackets, requireRuns, type Store } from "../store.js";
import type { GroupCommit } from "./group-commit.js";
import { onlyPart } from "./only-part.js";

interface Routes {
  readonly backend: Backend;
  readonly group: GroupCommit;
  readonly leases: AttemptLeases;
}

/** Makes `Store.commit`: checks a batch and passes its one part to group commit. */
export function commitBy({ backend, group, leases }: Routes): Store["commit"] {
  const commit = (given: Batch) => {
    const batch = onlyPart(given);
    if (batch instanceof InvalidInputError) return Promise.reject(batch);
    if ("run" in batch) {
      requireRuns(backend);
      return group.submitRun(batch.run);
    }
    if ("packet" in batch) {
      requirePackets(backend);
      return group.submitPacket(batch.packet);
    }
    if (batch.ledger.verb === "begin") leases.catchUp();
    return group.submitRecord(batch.ledger);
  };
  return commit as Store["commit"];
}
