import { effectClasses, mayRunAgain } from "../../../core/ledger/record.js";
import type { Collections } from "../layout.js";

/** Number of records that one purge checks. There is no index of abandoned records: every begin and settle would have to maintain it. */
const sweptMax = 2000;

const mayRunAgainRanks = effectClasses.filter(mayRunAgain).map((effect) => effectClasses.indexOf(effect));

/**
 * Finds and removes abandoned running records (core/ledger/record.ts, `abandonedAt`). Each purge continues where the previous one
 * ended.
 */
export class AbandonedRecords {
  readonly #collections: Collections;
  #sweptTo = "";

  constructor(collections: Collections) {
    this.#collections = collections;
  }

  async remove(until: number, limit: number): Promise<number> {
    const { records, audit } = this.#collections;
    const projection = { _id: 1, state: 1, effect: 1, leaseUntil: 1, retentionMs: 1, horizonMs: 1, rev: 1 };
    const swept = await records
      .find({ _id: { $gt: this.#sweptTo } }, { projection })
      .sort({ _id: 1 })
      .limit(sweptMax)
      .toArray();
    let removed = 0;
    let last = swept.length < sweptMax ? "" : (swept.at(-1)?._id ?? "");
    for (const { _id, state, effect, leaseUntil, retentionMs, horizonMs, rev } of swept) {
      if (state !== "running" || !mayRunAgainRanks.includes(effect) || retentionMs === null) continue;
      if (leaseUntil + retentionMs + horizonMs > until) continue;
      // The record last: after a crash between the two, a later purge finds it again.
      await audit.deleteMany({ record: { $in: [_id] } });
      // Only if it is unchanged since it was read: it may have been taken over meanwhile.
      removed += (await records.deleteOne({ _id, rev })).deletedCount;
      if (removed < limit) continue;
      last = _id;
      break;
    }
    this.#sweptTo = last;
    return removed;
  }
}
