import { rowOf } from "../../core/ledger/record.js";
import { untilWoken } from "../../core/packets/rules/lane.js";
import type { PacketRow, QueueId } from "../../core/packets/rules/table.js";
import { type Loaded, LoadedTable, type LockedRows } from "./loaded-packet-table.js";
import { laneName, type Wishes } from "./packet-wishes.js";

/** When to retry a packet that needs a row which another transaction has locked. */
const lookAgainMs = 20;

/** The due packets that a claim has found, and when others are due. */
export interface PickedPackets {
  readonly picked: readonly { readonly no: number }[] | null;
  /** For each queue: when its first packet that was not picked is due. */
  readonly upcoming: readonly (QueueId & { readonly at: number })[] | null;
  /** When the first lease of another worker ends. */
  readonly nextLapse: number | null;
}

/** The packets that a claim has picked. Only these can be claimed, and only if all rows that they need could be locked. */
export class ClaimTable extends LoadedTable {
  readonly #picked: readonly number[];
  readonly #left: readonly PacketRow[];
  readonly #upcoming: NonNullable<PickedPackets["upcoming"]>;
  readonly #nextLapse: number | null;

  constructor(loaded: Loaded, locked: LockedRows, wishes: Wishes, { picked, upcoming, nextLapse }: PickedPackets) {
    super(loaded, locked, wishes);
    const rows = (picked ?? []).map(({ no }) => this.packet(no)).filter((row) => row !== undefined);
    const free = freeOf(loaded, locked);
    this.#picked = rows.filter(free).map(({ no }) => no);
    this.#left = rows.filter((row) => !free(row));
    this.#upcoming = upcoming ?? [];
    this.#nextLapse = nextLapse;
  }

  override due(queue: QueueId, now: number, limit: number): PacketRow[] {
    const rows = this.#picked.map((no) => this.packets.get(no)).filter((row) => row !== undefined);
    return rows
      .filter((row) => sameQueue(row, queue) && row.owner === null && row.state !== "dead" && row.state !== "kept" && row.dueAt <= now)
      .slice(0, limit);
  }

  /** Considers packets that were not picked, that became due or held meanwhile, and that could not be locked. */
  override nextDue(queue: QueueId): number | null {
    const left = this.#left.filter((row) => sameQueue(row, queue));
    const waiting = [...this.packets.values()].filter((row) => {
      return (
        sameQueue(row, queue) &&
        row.owner === null &&
        row.state !== "dead" &&
        row.state !== "kept" &&
        row.dueAt < untilWoken &&
        !left.some(({ no }) => no === row.no)
      );
    });
    const times = [
      ...this.#upcoming.filter((each) => sameQueue(each, queue)).map(({ at }) => at),
      ...waiting.map(({ dueAt }) => dueAt),
      ...left.map(() => this.now() + lookAgainMs),
    ];
    return times.length === 0 ? null : Math.min(...times);
  }

  override nextLapse(): number | null {
    return this.#nextLapse;
  }
}

function freeOf({ records, executions }: Loaded, locked: LockedRows): (row: PacketRow) => boolean {
  const taken = new Set([
    ...records.map(rowOf).filter((id) => !locked.keys.has(id)),
    ...executions.filter(({ no }) => !locked.executions.has(no)).map(({ no }) => `execution ${no}`),
  ]);
  return ({ state, key, lane, execution, flow, queue }) => {
    if (state === "part") return !taken.has(`execution ${execution}`);
    if (key === null) return true;
    const inLane = lane === null || locked.lanes.has(laneName({ flow, queue, lane }));
    return inLane && !taken.has(rowOf(key)) && !taken.has(`execution ${execution}`);
  };
}

export function sameQueue(a: QueueId, b: QueueId): boolean {
  return a.flow === b.flow && a.queue === b.queue;
}
