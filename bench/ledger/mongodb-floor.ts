import type { Collection } from "mongodb";
import type { Contender } from "../measure.js";
import { freshKeys, outcome, settledCount, settledKeys, times } from "./ours.js";
import { names } from "./subject.js";

interface Floor {
  readonly _id: string;
  readonly state: string;
  readonly owner: string;
  readonly leaseUntil: number;
  readonly outcome?: string;
}

const owner = "floor:1";

/** The minimum that is correct: the write itself decides whether the key can begin, and the lease uses the server's clock. */
const begin = [
  {
    $replaceWith: {
      $cond: [
        { $eq: [{ $type: "$state" }, "missing"] },
        { _id: "$_id", state: "running", owner, leaseUntil: { $add: [{ $toDouble: "$$NOW" }, 10_000] } },
        "$$ROOT",
      ],
    },
  },
];

/** One upsert to begin, one fenced update to settle. */
export class MongoFloor {
  readonly #collection: Collection<Floor>;
  readonly #keys = freshKeys("floor");

  constructor(collection: Collection<Floor>) {
    this.#collection = collection;
  }

  bare(): Contender {
    return { name: names.bare, work: () => this.#execute(this.#keys()) };
  }

  async read(): Promise<Contender> {
    const fill = settledKeys();
    await times(settledCount, 32, () => this.#execute(`floor:${fill()}`));
    const next = settledKeys();
    return { name: names.read, work: () => this.#collection.findOne({ _id: `floor:${next()}` }) };
  }

  async #execute(key: string): Promise<void> {
    await this.#collection.findOneAndUpdate({ _id: key }, begin, { upsert: true, returnDocument: "after" });
    await this.#collection.updateOne({ _id: key, owner, state: "running" }, { $set: { state: "completed", outcome } });
  }
}
