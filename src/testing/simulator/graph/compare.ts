import type { MemoryTable } from "../../../stores/shared/memory-table.js";
import { PromiseBroken } from "../observer.js";
import type { KnownPacket, PacketBook } from "./packet-book.js";

/** Differential check: compares the rows and counters of the store with the observer's model. */
export function compareWithTable(book: PacketBook, table: MemoryTable): void {
  const sums = new Map<number, { open: number; dead: number; duplicates: number }>();
  for (const [number, packet] of book.packets) {
    const { execution } = packet.sent;
    comparePacket(packet, table, number);
    if (execution === null) continue;
    const sum = sums.get(execution) ?? { open: 0, dead: 0, duplicates: 0 };
    sums.set(execution, sum);
    const { fate, part } = packet;
    if (fate === undefined && !part) sum.open += 1;
    if (fate === "dead") sum.dead += 1;
    if (fate === "duplicate" || fate === "mismatch") sum.duplicates += 1;
  }
  for (const number of table.packets.keys())
    if (!book.packets.has(number)) throw new PromiseBroken(`packet ${number} is in the store, but it was never sent`);
  for (const [number, sum] of sums) {
    const row = table.executions.get(number);
    const { open, dead, duplicates, endedAt } = row ?? { open: -1, dead: -1, duplicates: -1, endedAt: null };
    if (open !== sum.open || dead !== sum.dead || duplicates !== sum.duplicates)
      throw new PromiseBroken(
        `execution ${number} has the counters ${JSON.stringify({ open, dead, duplicates })}, expected ${JSON.stringify(sum)}`,
      );
    if ((endedAt === null) !== open > 0) throw new PromiseBroken(`execution ${number} has ${open} open packets, but endedAt is ${endedAt}`);
  }
}

function comparePacket({ name, fate, owner, attempt, part }: KnownPacket, table: MemoryTable, number: number): void {
  const row = table.packets.get(number);
  if (row?.state === "kept") return;
  const gone = fate !== undefined && fate !== "dead";
  if (gone !== (row === undefined))
    throw new PromiseBroken(
      `${name}: expected ${fate ?? "open"}, but the store has ${row === undefined ? "no row" : `a row in state ${row.state}`}`,
    );
  if (row === undefined) return;
  if ((row.state === "dead") !== (fate === "dead"))
    throw new PromiseBroken(`${name}: expected ${fate ?? "open"}, but the row is ${row.state} in the store`);
  if ((row.state === "part") !== (part && fate === undefined))
    throw new PromiseBroken(`${name}: expected ${part ? "a part" : "not a part"} of a join, but the row is ${row.state} in the store`);
  if (row.attempt !== attempt) throw new PromiseBroken(`${name}: expected attempt ${attempt}, but the store has attempt ${row.attempt}`);
  // The store may have returned the packet of an expired worker to the queue, and no worker has claimed it yet.
  if (row.owner !== owner && row.owner !== null)
    throw new PromiseBroken(`${name}: expected owner w${owner}, but the store has owner w${row.owner}`);
}
