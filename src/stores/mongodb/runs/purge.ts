import { workerKeptMs } from "../../../core/runs/run.js";
import { Gate } from "../../../core/work/gate.js";
import { asking } from "../connection/ask.js";
import type { MongoClient, SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { serverTime } from "../ledger/read.js";
import { inTransaction } from "../transactions/in-transaction.js";
import { entryId } from "./document.js";

const gate = new Gate(4);

/**
 * Only ended runs without unsettled steps have an expiry. Each run is removed together with everything that belongs to it, or not
 * at all.
 */
export async function purgeRuns(client: MongoClient, collections: Collections, limit: number): Promise<number> {
  const { runs, workers } = collections;
  const over = await asking("a purge", async () => {
    const time = await serverTime(collections);
    await workers.deleteMany({ seenAt: { $lte: time - workerKeptMs } });
    return await runs
      .find({ expiresAt: { $lte: time } }, { projection: { no: 1 } })
      .sort({ expiresAt: 1 })
      .limit(limit)
      .toArray();
  });
  const removed = await gate.runAll(over, ({ _id, no }) =>
    inTransaction(client, "a purge", async (options) => {
      const { deletedCount } = await runs.deleteOne({ _id, no, expiresAt: { $exists: true } }, options);
      if (deletedCount === 0) return 0;
      await removeParts(collections, no, options);
      return 1;
    }),
  );
  return removed.reduce<number>((sum, one) => sum + (one === 1 ? 1 : 0), 0);
}

/** Removes everything that belongs to a run except its document. A long input is in the journal. */
export async function removeParts({ journal, mail, hooks, chunks }: Collections, no: string, options: SessionOption): Promise<void> {
  await journal.deleteMany({ _id: { $gte: entryId(no, 0), $lt: `${no}\u0001` } }, options);
  await mail.deleteMany({ run: no }, options);
  await hooks.deleteMany({ no }, options);
  await chunks.deleteMany({ no }, options);
}
