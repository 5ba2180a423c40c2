import { randomUUID } from "node:crypto";
import { assert } from "../../../core/errors/errors.js";
import type { RunAnswer, StartRun } from "../../../core/runs/operation.js";
import type { SessionOption } from "../driver.js";
import { isDuplicateKey } from "../errors.js";
import type { Collections } from "../layout.js";
import { absent, add, choose, isMissing, literal, now } from "../ledger/expressions.js";
import { requireRoom } from "../ledger/settle.js";
import { inputLengthMax, type RunAndNow, runAndNow } from "./document.js";
import { withInputs } from "./load.js";

/** Only the document of the run itself: no transaction is needed for it. */
export function isOneDocument({ first, input, chunks }: StartRun): boolean {
  return first === null && chunks === undefined && input.length <= inputLengthMax;
}

/** The start of rules/start.ts for a run that is one document. Two who insert it at once: MongoDB tells one of them that it exists, who then finds it. */
export async function startAlone(collections: Collections, start: StartRun): Promise<RunAnswer | "again"> {
  try {
    const { run, created } = await createRun(collections, start, {});
    if (created || run.creator === start.creator) return { kind: "created", now: run.now, conflicts: [] };
    const [record] = await withInputs(collections, [run], {});
    assert(record !== undefined, "a run has its input as long as it is there");
    return { kind: "exists", run: record };
  } catch (error) {
    if (isDuplicateKey(error)) return "again";
    throw error;
  }
}

/** Creates the document of a run at the server's time, and reads it or the one that is there, in one trip. */
export async function createRun(
  { runs }: Collections,
  start: StartRun,
  options: SessionOption,
): Promise<{ readonly run: RunAndNow; readonly created: boolean }> {
  const no = randomUUID();
  requireRoom(start.input);
  const update = create(start, no);
  const found = await runs.findOneAndUpdate({ _id: start.id }, update, {
    ...options,
    upsert: true,
    returnDocument: "after",
    projection: runAndNow,
  });
  assert(found !== null, "an upsert finds what it inserts");
  // Sent again by the driver, an insert is answered without the projection: the time of it is in the document.
  const told = found as unknown as Omit<RunAndNow, "now"> & { readonly now?: number };
  return { run: { ...told, now: told.now ?? told.createdAt }, created: told.no === no };
}

/** The new run of rules/start.ts, or the document that is there, which MongoDB then does not write. */
function create(
  { id, workflow, input, fingerprint, parent, creator, retentionMs, first }: StartRun,
  no: string,
): Record<string, unknown>[] {
  const fresh = {
    _id: literal(id),
    no: literal(no),
    workflow: literal(workflow),
    status: first === null ? "pending" : "running",
    input: input.length > inputLengthMax ? null : literal(input),
    fingerprint: literal(fingerprint),
    output: null,
    trouble: null,
    owner: first === null ? absent : literal(first.owner),
    epoch: first === null ? 0 : 1,
    wakeAt: first === null ? now : add(now, first.leaseMs),
    mail: 0,
    consumed: 0,
    parent: literal(parent),
    creator: literal(creator),
    createdAt: now,
    startedAt: first === null ? null : now,
    endedAt: null,
    retentionMs: literal(retentionMs),
  };
  return [{ $replaceWith: choose(isMissing("$no"), fresh, "$$ROOT") }];
}
