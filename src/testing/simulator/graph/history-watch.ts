import type { PacketOutcome, SettlePacket } from "../../../core/packets/operation.js";
import type { MemoryTable } from "../../../stores/shared/memory-table.js";
import { PromiseBroken } from "../observer.js";
import type { KnownPacket } from "./packet-book.js";

/** What the history must say, by packet and attempt: collected from the settles that the store has applied. */
export class HistoryWatch {
  readonly #expected = new Map<string, string>();

  /** The store has applied the settle. */
  settled({ no, attempt, to, entry }: SettlePacket, { name, sent: { execution, queue, letter } }: KnownPacket): void {
    const verdict = verdictOf(to, letter === null);
    if (verdict === undefined || execution === null) return;
    if (entry === undefined) {
      // The mark of a packet that was lost in memory: no node was called.
      if (queue === "onceflow.marks") return;
      throw new PromiseBroken(`${name}: attempt ${attempt} ended as ${verdict}, without an entry in the history`);
    }
    const { memory } = entry;
    this.#expected.set(`${no} ${memory?.attempt ?? attempt}`, memory?.verdict ?? verdict);
  }

  /** Every applied settle has one entry, with the same verdict, and there is no other entry. */
  verify({ entries }: MemoryTable): void {
    const left = new Map(this.#expected);
    for (const { packet, attempt, verdict } of [...entries.values()].flat()) {
      const id = `${packet} ${attempt}`;
      const expected = left.get(id);
      if (expected !== verdict)
        throw new PromiseBroken(`packet ${id}: the history says ${verdict}; the settle was ${expected ?? "none, or is there twice"}`);
      left.delete(id);
    }
    for (const [id, verdict] of left) throw new PromiseBroken(`packet ${id}: ended as ${verdict}, which is not in the history`);
  }
}

function verdictOf(to: PacketOutcome, isDropped: boolean): string | undefined {
  if (to.kind === "done") return to.note === "skipped" || to.note === "restarted" ? to.note : "completed";
  if (to.kind === "dead") return isDropped ? "dropped" : "dead";
  return to.kind === "retry" ? "retry" : undefined;
}
