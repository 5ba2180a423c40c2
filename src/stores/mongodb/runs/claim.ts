import type { Filter } from "mongodb";
import type { Claimed, ClaimQuery, Claims } from "../../../core/runs/operation.js";
import { type Candidate, chooseDue, claimableAt, claimedBy, mayClaimSuspects, nextClaimAt } from "../../../core/runs/rules/claim.js";
import { Gate } from "../../../core/work/gate.js";
import { asking } from "../connection/ask.js";
import type { MongoClient } from "../driver.js";
import type { Collections } from "../layout.js";
import { add, gte, literal, now, orElse } from "../ledger/expressions.js";
import { serverTime } from "../ledger/read.js";
import { inTransaction } from "../transactions/in-transaction.js";
import type { RunDocument } from "./document.js";
import { loadRun } from "./load.js";

interface Found {
  readonly _id: string;
  readonly epoch: number;
  readonly owner?: string;
  readonly wakeAt: number;
  readonly deaths?: number;
  readonly crashes?: number;
  readonly alone?: boolean;
  readonly avoid?: readonly string[];
  readonly avoidUntil?: number;
  readonly startedAt: number | null;
  readonly now: number;
}

/** A run that this owner may claim, and when. */
interface Queued extends Candidate {
  readonly run: Found;
}

const gate = new Gate(16);
/** After this many rounds in which other workers claimed all candidates, the worker's next poll tries again. */
const roundsMax = 3;

/** Reads the head of the queue, claims due runs one by one, and loads them. Only reads if nothing is due. */
export async function claimRuns(client: MongoClient, collections: Collections, query: ClaimQuery): Promise<Claims> {
  const claimed: Claimed[] = [];
  const taken: Queued[] = [];
  for (let round = 1; ; round++) {
    const limit = query.limit - claimed.length;
    const found = await asking("a claim", () => headOfQueue(collections, query, limit + 1));
    const suspects = mayClaimSuspects(query, taken);
    const time = found[0]?.run.now ?? (await asking("a claim", () => serverTime(collections)));
    const due = chooseDue(found, { ...query, limit, suspects }, time);
    const enough = due.length === 0 || limit === 0 || round > roundsMax;
    if (enough) return { now: time, claimed, nextAt: nextClaimAt(found, suspects) };
    const each = (await gate.runAll(due, ({ run }) => claim(client, collections, query, run))).flat();
    claimed.push(...each);
    taken.push(...due.filter(({ run }) => each.some((one) => one.run.id === run._id)));
  }
}

/**
 * The next runs that any worker may claim, by the queue's index; and all suspects and avoided runs, which are few, by their own
 * indexes.
 */
async function headOfQueue(collections: Collections, { workflows, owner, run }: ClaimQuery, limit: number): Promise<Queued[]> {
  const open = { wakeAt: { $exists: true }, owner: { $ne: owner } };
  const of = { ...open, workflow: { $in: [...workflows] } };
  const found =
    run === undefined
      ? await Promise.all([
          candidates(
            collections,
            { ...of, $or: [{ deaths: { $exists: false } }, { deaths: { $lt: 2 } }], avoidUntil: { $exists: false } },
            limit,
          ),
          candidates(collections, { ...of, $or: [{ deaths: { $gte: 2 } }, { avoidUntil: { $exists: true } }] }, 0),
        ])
      : [await candidates(collections, { ...open, _id: run }, 1)];
  const queue = found.flat().map((one) => {
    const { wakeAt, avoid = [], avoidUntil = null, deaths = 0 } = one;
    return { run: one, deaths, at: claimableAt({ wakeAt, avoid, avoidUntil }, owner) };
  });
  return queue.sort((a, b) => a.at - b.at);
}

const projection = {
  ...{ epoch: 1, owner: 1, wakeAt: 1, startedAt: 1, now },
  ...{ deaths: 1, crashes: 1, alone: 1, avoid: 1, avoidUntil: 1 },
};

async function candidates({ runs }: Collections, filter: Filter<RunDocument>, limit: number): Promise<Found[]> {
  const found = await runs
    .find(filter, { projection })
    // Exactly the order of the index, so that a long queue is not read to its end.
    .sort({ wakeAt: 1 })
    .limit(limit)
    .toArray();
  return found as unknown as Found[];
}

/**
 * The write compares the epoch, which any other claim increases; the time, on the server, because of renewals; and
 * everything else that the rule used, which the late owner may have changed in between.
 */
async function claim(client: MongoClient, collections: Collections, { owner, leaseMs }: ClaimQuery, found: Found): Promise<Claimed[]> {
  const { _id, epoch, wakeAt, owner: before, deaths, crashes, alone, avoidUntil, startedAt, now: time } = found;
  const was = { owner: before ?? null, epoch, deaths: deaths ?? 0, crashes: crashes ?? 0, alone: alone ?? false, startedAt };
  const same = Object.fromEntries(
    Object.entries({ owner: before, deaths, crashes, alone, avoidUntil }).map(([name, value]) => [name, asFound(value)]),
  );
  const to = Object.entries(claimedBy(owner, was, time)).map(([name, value]) => [name, literal(value)]);
  const taken = await asking("a claim", () =>
    collections.runs.updateOne(
      { _id, epoch, wakeAt, ...same, $expr: gte(now, "$wakeAt") },
      [{ $set: { ...Object.fromEntries(to), startedAt: orElse("$startedAt", now), wakeAt: add(now, leaseMs) } }],
      collections.bounded,
    ),
  );
  if (taken.matchedCount === 0) return [];
  const loaded = await inTransaction(client, "a claim", (options) => loadRun(collections, _id, options));
  // The late owner has ended or released the run since, or the claim was lost: the next poll finds out.
  if (loaded === undefined || loaded === "again" || loaded.run.owner !== owner || loaded.run.epoch !== epoch + 1) return [];
  return [{ ...loaded, lapsed: before !== undefined }];
}

function asFound(value: string | number | boolean | undefined) {
  return value === undefined ? { $exists: false } : { $eq: value };
}
