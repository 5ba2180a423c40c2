import { effectClasses, mayRunAgain, rowOf } from "../../../core/ledger/record.js";
import type { Collections } from "../layout.js";
import type { RecordPlace } from "./record-place.js";

/** Number of records that one purge checks. There is no index of abandoned records: every begin and settle would have to maintain it. */
const sweptMax = 2000;

const mayRunAgainRanks = effectClasses.filter(mayRunAgain).map((effect) => effectClasses.indexOf(effect));

/**
 * Finds and removes abandoned running records (core/ledger/record.ts, `abandonedAt`). Each purge continues where the previous one
 * ended.
 */
export class AbandonedRecords {
  readonly #collections: Collections;
  /** By collection: the last record that was checked. */
  readonly #sweptTo = new Map<string, string>();

  constructor(collections: Collections) {
    this.#collections = collections;
  }

  async remove({ records, words, scope }: RecordPlace, until: number, limit: number): Promise<number> {
    const { audit } = this.#collections;
    const { collectionName: name } = records;
    const projection = { _id: 1, [words.member]: 1, effect: 1, leaseUntil: 1, retentionMs: 1, horizonMs: 1, rev: 1 };
    const swept = await records
      .find({ _id: { $gt: this.#sweptTo.get(name) ?? "" } }, { projection })
      .sort({ _id: 1 })
      .limit(sweptMax)
      .toArray();
    let removed = 0;
    let last = swept.length < sweptMax ? "" : (swept.at(-1)?._id ?? "");
    for (const { _id, [words.member]: state, effect, leaseUntil, retentionMs, horizonMs, rev } of swept) {
      if (state !== words.running || !mayRunAgainRanks.includes(effect) || retentionMs === null) continue;
      if (leaseUntil + retentionMs + horizonMs > until) continue;
      // The record last: after a crash between the two, a later purge finds it again.
      await audit.deleteMany({ record: scope === undefined ? _id : rowOf({ scope, key: _id }) });
      // Only if it is unchanged since it was read: it may have been taken over meanwhile.
      removed += (await records.deleteOne({ _id, rev })).deletedCount;
      if (removed < limit) continue;
      last = _id;
      break;
    }
    this.#sweptTo.set(name, last);
    return removed;
  }
}
