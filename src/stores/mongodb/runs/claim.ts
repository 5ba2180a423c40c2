import type { Filter } from "mongodb";
import type { Claimed, ClaimQuery, Claims } from "../../../core/runs/operation.js";
import { isSuspect } from "../../../core/runs/run.js";
import { Gate } from "../../../core/work/gate.js";
import { asking } from "../connection/ask.js";
import type { MongoClient } from "../driver.js";
import type { Collections } from "../layout.js";
import { absent, add, choose, eq, gte, isMissing, literal, now, orElse } from "../ledger/expressions.js";
import { serverTime } from "../ledger/read.js";
import type { RunDocument } from "./document.js";
import { loadRun } from "./load.js";
import { inTransaction } from "./transaction.js";

interface Candidate {
  readonly _id: string;
  readonly epoch: number;
  readonly owner?: string;
  readonly wakeAt: number;
  readonly deaths?: number;
  readonly avoid?: readonly string[];
  readonly avoidUntil?: number;
  readonly now: number;
}

/** What this owner may claim, and when. */
interface Queued {
  readonly run: Candidate;
  readonly at: number;
  readonly suspect: boolean;
}

const gate = new Gate(16);
/** Somebody else was faster with all of them, so often: the next look is the worker's. */
const roundsMax = 3;

/** Looks at the head of the queue, takes what is due one by one, and loads it. Reads only when nothing is due. */
export async function claimRuns(client: MongoClient, collections: Collections, query: ClaimQuery): Promise<Claims> {
  const claimed: Claimed[] = [];
  let suspects = query.suspects ?? true;
  for (let round = 1; ; round++) {
    const limit = query.limit - claimed.length;
    const found = await asking("a claim", () => headOfQueue(collections, query, limit + 1));
    const queue = found.filter(({ suspect }) => suspects || !suspect);
    const time = found[0]?.run.now ?? (await asking("a claim", () => serverTime(collections)));
    const due = chosen(queue, time, limit);
    const enough = due.length === 0 || limit === 0 || round > roundsMax;
    if (enough) return { now: time, claimed, nextAt: queue[0]?.at ?? null };
    const taken = (await gate.runAll(due, ({ run }) => claim(client, collections, query, run))).flat();
    claimed.push(...taken);
    const suspect = due.find((one) => one.suspect)?.run._id;
    if (taken.some(({ run }) => run.id === suspect)) suspects = false;
  }
}

/** The oldest that are due, and of suspects only the first. */
function chosen(queue: readonly Queued[], time: number, limit: number): Queued[] {
  const due = queue.filter(({ at }) => at <= time);
  const first = due.find(({ suspect }) => suspect);
  return due.filter((one) => one === first || !one.suspect).slice(0, limit);
}

/** What every worker of its workflow may claim, by the index of the queue; and all of the few others, by theirs. */
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
  const queue = found.flat().map((one) => ({ run: one, at: claimableAt(one, owner), suspect: isSuspect({ deaths: one.deaths ?? 0 }) }));
  return queue.sort((a, b) => a.at - b.at);
}

async function candidates({ runs }: Collections, filter: Filter<RunDocument>, limit: number): Promise<Candidate[]> {
  const found = await runs
    .find(filter, { projection: { epoch: 1, owner: 1, wakeAt: 1, deaths: 1, avoid: 1, avoidUntil: 1, now } })
    // By nothing else: this is the order of the index, so that a long queue is not read to its end.
    .sort({ wakeAt: 1 })
    .limit(limit)
    .toArray();
  return found as unknown as Candidate[];
}

/** A worker that is to be avoided waits longer than the others. */
function claimableAt({ wakeAt, avoid = [], avoidUntil = 0 }: Candidate, owner: string): number {
  return avoid.includes(owner) ? Math.max(wakeAt, avoidUntil) : wakeAt;
}

/**
 * The epoch is compared: whoever else claims it raises it. So is the time, by the server at the write: a renewal counts.
 * And whether it is a suspect or to be avoided, which its late owner may have written in between. The death of an owner
 * that fell silent is counted in the same write.
 */
async function claim(
  client: MongoClient,
  collections: Collections,
  { owner, leaseMs }: ClaimQuery,
  { _id, epoch, wakeAt, owner: before, deaths, avoidUntil }: Candidate,
): Promise<Claimed[]> {
  const taken = await asking("a claim", () =>
    collections.runs.updateOne(
      { _id, epoch, wakeAt, deaths: asFound(deaths), avoidUntil: asFound(avoidUntil), $expr: gte(now, "$wakeAt") },
      [
        {
          $set: {
            ...{ owner: literal(owner), epoch: add("$epoch", 1), wakeAt: add(now, leaseMs), status: "running", trouble: null },
            startedAt: orElse("$startedAt", now),
            deaths: add(orElse("$deaths", 0), died),
            crashes: add(orElse("$crashes", 0), choose(eq("$alone", true), died, 0)),
            alone: absent,
          },
        },
      ],
      collections.bounded,
    ),
  );
  if (taken.matchedCount === 0) return [];
  const loaded = await inTransaction(client, "a claim", (options) => loadRun(collections, _id, options));
  // Its late owner has ended or released it since, or we have lost it: the next look finds the truth.
  if (loaded === undefined || loaded === "again" || loaded.run.owner !== owner || loaded.run.epoch !== epoch + 1) return [];
  return [{ ...loaded, lapsed: before !== undefined }];
}

const died = choose(isMissing("$owner"), 0, 1);

function asFound(value: number | undefined) {
  return value === undefined ? { $exists: false } : { $eq: value };
}
