import { randomUUID } from "node:crypto";
import { assert } from "../../../core/errors/errors.js";
import type { RunAnswer, StartRun } from "../../../core/runs/operation.js";
import type { SessionOption } from "../driver.js";
import { isDuplicateKey } from "../errors.js";
import type { Collections } from "../layout.js";
import { absent, add, choose, isMissing, literal, now } from "../ledger/expressions.js";
import { requireRoom } from "../ledger/settle.js";
import { inputLengthMax, type RunAndNow, runAndNow, termsOf } from "./document.js";
import { withInputs } from "./load.js";

/** Whether a start writes only the document of the run, so that it needs no transaction. */
export function isOneDocument({ first, input, chunks }: StartRun): boolean {
  return first === null && chunks === undefined && input.length <= inputLengthMax;
}

/**
 * The start of rules/start.ts for a run that is one document. Of two concurrent inserts one gets a duplicate key error, and then
 * finds the document.
 */
export async function startAlone(collections: Collections, start: StartRun): Promise<RunAnswer | "again"> {
  try {
    const { run, created } = await createRun(collections, start, {});
    if (created || run.creator === start.creator) return { kind: "created", now: run.now, conflicts: [] };
    const [record] = await withInputs(collections, [run], {});
    assert(record !== undefined, "an existing run has its input");
    return { kind: "exists", run: record };
  } catch (error) {
    if (isDuplicateKey(error)) return "again";
    throw error;
  }
}

/** Creates the document of a run with the server's time, and returns it or the existing one, in one round trip. */
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
  assert(found !== null, "an upsert returns the document that it inserts");
  // If the driver retried the insert, the reply has no projection: then the time is that of the document.
  const run = found as unknown as Omit<RunAndNow, "now"> & { readonly now?: number };
  return { run: { ...run, now: run.now ?? run.createdAt }, created: run.no === no };
}

/** Update that creates the new run of rules/start.ts. An existing document stays as it is, and MongoDB does not write it. */
function create(
  { id, workflow, input, fingerprint, parent, creator, retentionMs, first, timeoutMs, cleanupMs = 0, scope = "", attributes }: StartRun,
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
    ...(timeoutMs !== undefined && { deadlineAt: add(now, timeoutMs), stopAt: add(now, timeoutMs + cleanupMs) }),
    ...(scope !== "" && { scope: literal(scope) }),
    ...(attributes !== undefined && { attributes: literal(attributes), terms: literal(termsOf(attributes)) }),
  };
  return [{ $replaceWith: choose(isMissing("$no"), fresh, "$$ROOT") }];
}
