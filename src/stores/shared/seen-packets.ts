import type { RecordId } from "../../core/ledger/record.js";
import type { PacketRow } from "../../core/packets/rules/table.js";

/** The key of a part that waits at a port of a node. */
export interface SeenPart extends RecordId {
  readonly execution: number;
  readonly node: string;
}

/** Packets read without a lock: their lane, key and execution never change. */
export class SeenPackets {
  readonly packets = new Map<number, PacketRow>();
  readonly #held = new Map<number, PacketRow[]>();
  readonly #parts = new Map<string, RecordId[]>();

  static readonly none = new SeenPackets();

  /** Packets that are held by the key of this packet. */
  heldBehind(no: number): readonly PacketRow[] {
    return this.#held.get(no) ?? [];
  }

  keysOfParts(execution: number, node: string): readonly RecordId[] {
    return this.#parts.get(JSON.stringify([execution, node])) ?? [];
  }

  addHeld(of: number, row: PacketRow): void {
    this.#held.set(of, [...(this.#held.get(of) ?? []), row]);
  }

  addPart({ execution, node, scope, key }: SeenPart): void {
    const id = JSON.stringify([execution, node]);
    this.#parts.set(id, [...(this.#parts.get(id) ?? []), { scope, key }]);
  }
}
