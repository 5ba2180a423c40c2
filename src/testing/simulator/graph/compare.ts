import type { MemoryTable } from "../../../stores/shared/memory-table.js";
import { PromiseBroken } from "../observer.js";
import type { KnownPacket, PacketBook } from "./packet-book.js";

/** The differential check: rows and counters of the store against what the observer knows. */
export function compareWithTable(book: PacketBook, table: MemoryTable): void {
  const sums = new Map<number, { open: number; dead: number; duplicates: number }>();
  for (const [no, packet] of book.packets) {
    const { execution } = packet.sent;
    comparePacket(packet, table, no);
    if (execution === null) continue;
    const sum = sums.get(execution) ?? { open: 0, dead: 0, duplicates: 0 };
    sums.set(execution, sum);
    const { fate, part } = packet;
    if (fate === undefined && !part) sum.open += 1;
    if (fate === "dead") sum.dead += 1;
    if (fate === "duplicate" || fate === "mismatch" || fate === "closed") sum.duplicates += 1;
  }
  for (const no of table.packets.keys())
    if (!book.packets.has(no)) throw new PromiseBroken(`packet ${no} is in the store, and nobody sent it`);
  for (const [no, sum] of sums) {
    const row = table.executions.get(no);
    const { open, dead, duplicates, endedAt } = row ?? { open: -1, dead: -1, duplicates: -1, endedAt: null };
    if (open !== sum.open || dead !== sum.dead || duplicates !== sum.duplicates)
      throw new PromiseBroken(`execution ${no} counts ${JSON.stringify({ open, dead, duplicates })}, and has ${JSON.stringify(sum)}`);
    if ((endedAt === null) !== open > 0) throw new PromiseBroken(`execution ${no} has ${open} packets under way, and ended at ${endedAt}`);
  }
}

function comparePacket({ name, fate, owner, attempt, part }: KnownPacket, table: MemoryTable, no: number): void {
  const row = table.packets.get(no);
  if (row?.state === "kept") return;
  const gone = fate !== undefined && fate !== "dead";
  if (gone !== (row === undefined))
    throw new PromiseBroken(`${name}: ${fate ?? "under way"}, and it is ${row?.state ?? "not"} in the store`);
  if (row === undefined) return;
  if ((row.state === "dead") !== (fate === "dead"))
    throw new PromiseBroken(`${name}: ${fate ?? "under way"}, and ${row.state} in the store`);
  if ((row.state === "part") !== (part && fate === undefined)) throw new PromiseBroken(`${name}: whether it is a part was told wrongly`);
  if (row.attempt !== attempt) throw new PromiseBroken(`${name}: attempt ${attempt}, and ${row.attempt} in the store`);
  // The store may have taken it from somebody silent, and nobody has it yet.
  if (row.owner !== owner && row.owner !== null) throw new PromiseBroken(`${name}: w${owner} has it, and w${row.owner} in the store`);
}
