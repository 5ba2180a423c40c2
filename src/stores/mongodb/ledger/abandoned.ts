import { effectClasses, mayRunAgain } from "../../../core/ledger/record.js";
import type { Collections } from "../layout.js";

/** Records that one purge looks through for abandoned ones. No index finds them: every begin and settle would pay for it. */
const sweptMax = 2000;

const mayRunAgainRanks = effectClasses.filter(mayRunAgain).map((effect) => effectClasses.indexOf(effect));

/** Finds and removes running records that were abandoned (core/ledger/record.ts, `abandonedAt`), from where the purge before has ended. */
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
      // First what belongs to it: if we die between the two, a later purge finds it again.
      await audit.deleteMany({ record: { $in: [_id] } });
      // Unchanged since it was read: it may have been taken over meanwhile.
      removed += (await records.deleteOne({ _id, rev })).deletedCount;
      if (removed < limit) continue;
      last = _id;
      break;
    }
    this.#sweptTo = last;
    return removed;
  }
}
