import type { PickedPackets } from "../../shared/claim-table.js";
import { Missing } from "../../shared/loaded-packet-table.js";
import type { Wishes } from "../../shared/packet-wishes.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { loadRows, lockedBy } from "./load.js";
import { DependentTable } from "./table.js";
import { writeChanges } from "./write.js";

/** How often the rules may find that they need another row. Each time that row is read, too. */
const looksMax = 10;

interface Deciding {
  readonly wishes: Wishes;
  /** For a claim: the packets that it has found. */
  readonly picked?: PickedPackets;
  /** The number of the claim. */
  readonly claim?: number;
}

const noPicks: PickedPackets = { picked: null, upcoming: null, nextLapse: null };

/**
 * Inside a transaction: reads rows, applies the rules, and writes the changes. The rules run again if they need a row that was not read;
 * nothing is written before they have all.
 */
export async function decideInside<T>(
  collections: Collections,
  { wishes, picked = noPicks, claim }: Deciding,
  options: Required<SessionOption>,
  work: (table: DependentTable) => T,
): Promise<T> {
  for (let looks = 1; ; looks++) {
    const loaded = await loadRows(collections, wishes, options);
    const table = new DependentTable(loaded, lockedBy(loaded, wishes), wishes, picked);
    try {
      const result = work(table);
      await writeChanges(collections, table, loaded.noted, options, claim);
      return result;
    } catch (error) {
      if (!(error instanceof Missing) || looks >= looksMax) throw error;
      wishes.add(error.wishes);
    }
  }
}
