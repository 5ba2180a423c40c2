import { Numbered } from "../../core/numbered.js";
import type { PacketRow } from "../../core/packets/table.js";

const rowsMax = 10_000;

/**
 * Rows that workers of this process have, as they were claimed: whoever settles one need not read it again. Only a hint:
 * every use compares owner and attempt, and an attempt never comes twice, so what they name is as it was. Whoever undoes
 * a transaction calls `forget`.
 */
export class OwnedRows {
  readonly #rows = new Numbered<PacketRow>();

  get(no: number): PacketRow | undefined {
    return this.#rows.get(no);
  }

  /** The row as it is now. */
  set(row: PacketRow): void {
    if (row.owner === null) {
      this.#rows.delete(row.no);
      return;
    }
    if (this.#rows.size >= rowsMax) this.forget();
    this.#rows.set(row.no, row);
  }

  delete(no: number): void {
    this.#rows.delete(no);
  }

  forget(): void {
    this.#rows.clear();
  }
}
