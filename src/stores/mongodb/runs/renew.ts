import type { HeldRun, Renewed, RenewQuery } from "../../../core/runs/operation.js";
import { type WorkerRecord, workerKeptMs } from "../../../core/runs/run.js";
import { isDuplicateKey } from "../errors.js";
import type { Collections } from "../layout.js";
import { add, literal, now, orElse } from "../ledger/expressions.js";
import type { WorkerDocument } from "./document.js";

/** Each document is written by itself. A run that another worker has claimed meanwhile does not match and is not changed. */
export async function renewRuns(collections: Collections, { owner, leaseMs, signOfLife }: RenewQuery): Promise<Renewed[]> {
  const { runs, bounded } = collections;
  if (signOfLife) await saveWorker(collections, { owner, leaseMs, signOfLife });
  const { matchedCount } = await runs.updateMany({ owner }, [{ $set: { wakeAt: add(now, leaseMs) } }], bounded);
  if (matchedCount === 0) return [];
  const held = await runs.find({ owner }, { projection: { creator: 1, epoch: 1, mail: 1 } }).toArray();
  return held.map(({ _id: id, creator, epoch, mail }) => ({ id, creator, epoch, mail }));
}

async function saveWorker({ workers, bounded }: Collections, { owner, leaseMs, signOfLife }: Required<RenewQuery>): Promise<void> {
  const { workflows, version } = signOfLife;
  const seen = { workflows: literal(workflows), version: literal(version), seenAt: now, leaseUntil: add(now, leaseMs) };
  const save = () =>
    workers.updateOne({ _id: owner }, [{ $set: { ...seen, startedAt: orElse("$startedAt", now) } }], { ...bounded, upsert: true });
  await save().catch((error: unknown) => {
    // Of two concurrent first heartbeats, one gets a duplicate key error.
    if (!isDuplicateKey(error)) throw error;
    return save();
  });
}

export async function readWorkers({ workers }: Collections): Promise<WorkerRecord[]> {
  const found = (await workers
    .find({}, { projection: { workflows: 1, version: 1, startedAt: 1, seenAt: 1, leaseUntil: 1, now } })
    .toArray()) as unknown as (WorkerDocument & { readonly now: number })[];
  return found
    .filter(({ seenAt, now: time }) => seenAt > time - workerKeptMs)
    .map(({ _id: id, workflows, version, startedAt, seenAt, leaseUntil, now: time }) => ({
      ...{ id, workflows, version, startedAt, seenAt, live: leaseUntil > time },
    }))
    .sort((a, b) => Number(b.live) - Number(a.live) || b.seenAt - a.seenAt);
}

export async function readHeld({ runs }: Collections, owner: string, limit: number): Promise<HeldRun[]> {
  const found = await runs
    .find({ owner }, { projection: { workflow: 1 } })
    .limit(limit)
    .toArray();
  return found.map(({ _id: id, workflow }) => ({ id, workflow }));
}

/** Jumps from name to name through the index: one read for each workflow, however many runs it has. */
export async function readWorkflows({ runs }: Collections, after: string, limit: number): Promise<string[]> {
  const names: string[] = [];
  while (names.length < limit) {
    const workflow = { $gt: names.at(-1) ?? after };
    const next = await runs.findOne({ workflow }, { projection: { _id: 0, workflow: 1 }, sort: { workflow: 1 } });
    if (next === null) break;
    names.push(next.workflow);
  }
  return names;
}

export async function removeWorker({ workers, bounded }: Collections, owner: string): Promise<void> {
  await workers.deleteOne({ _id: owner }, bounded);
}
