import type { Claimed, ClaimQuery, Claims } from "../../core/run-operation.js";
import type { Collections } from "./collections.js";
import { asking, type MongoClient } from "./driver.js";
import { add, gte, literal, now, orElse } from "./expressions.js";
import { serverTime } from "./read.js";
import { loadRun } from "./run-load.js";
import { inTransaction } from "./run-transaction.js";
import { atMost, sideBySide } from "./side-by-side.js";

interface Candidate {
  readonly _id: string;
  readonly epoch: number;
  readonly owner?: string;
  readonly wakeAt: number;
  readonly now: number;
}

const inTurn = atMost(16);
/** Somebody else was faster with all of them, so often: the next look is the worker's. */
const roundsMax = 3;

/** Looks at the head of the queue, takes what is due one by one, and loads it. Reads only when nothing is due. */
export async function claimRuns(client: MongoClient, collections: Collections, query: ClaimQuery): Promise<Claims> {
  const claimed: Claimed[] = [];
  for (let round = 1; ; round++) {
    const limit = query.limit - claimed.length;
    const queue = await asking("a claim", () => headOfQueue(collections, query, limit + 1));
    const time = queue[0]?.now ?? (await asking("a claim", () => serverTime(collections)));
    const due = queue.filter(({ wakeAt }) => wakeAt <= time).slice(0, limit);
    const enough = due.length === 0 || limit === 0 || round > roundsMax;
    if (enough) return { now: time, claimed, nextAt: queue[0]?.wakeAt ?? null };
    claimed.push(...(await sideBySide(due, inTurn, (one) => claim(client, collections, query, one))).flat());
  }
}

async function headOfQueue({ runs }: Collections, { workflows, owner }: ClaimQuery, limit: number): Promise<Candidate[]> {
  const found = await runs
    .find(
      { workflow: { $in: [...workflows] }, wakeAt: { $exists: true }, owner: { $ne: owner } },
      { projection: { epoch: 1, owner: 1, wakeAt: 1, now } },
    )
    // By nothing else: this is the order of the index, so that a long queue is not read to its end.
    .sort({ wakeAt: 1 })
    .limit(limit)
    .toArray();
  return found as unknown as Candidate[];
}

/** The epoch is compared: whoever else claims it raises it. So is the time, by the server at the write: a renewal counts. */
async function claim(
  client: MongoClient,
  collections: Collections,
  { owner, leaseMs }: ClaimQuery,
  { _id, epoch, wakeAt, owner: before }: Candidate,
): Promise<Claimed[]> {
  const taken = await asking("a claim", () =>
    collections.runs.updateOne(
      { _id, epoch, wakeAt, $expr: gte(now, "$wakeAt") },
      [
        {
          $set: {
            ...{ owner: literal(owner), epoch: add("$epoch", 1), wakeAt: add(now, leaseMs), status: "running", trouble: null },
            startedAt: orElse("$startedAt", now),
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
