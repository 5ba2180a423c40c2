import { assert } from "../../errors/errors.js";
import type { NewPacket, NewPart, Placed } from "../operation.js";
import { toDead } from "./dead.js";
import { beginKey, ownsKey } from "./key.js";
import { enterLane } from "./lane.js";
import { joinedRow } from "./release.js";
import { rowOf } from "./row.js";
import type { PacketRow } from "./table.js";
import type { Tally } from "./tally.js";

/** Inserts a new packet: claimed by its sender, due in its queue, held behind another packet, or as a part of a join. */
export function placePacket(tally: Tally, packet: NewPacket, worker: number | null): Placed {
  const { table, now } = tally;
  const claims = packet.claim && worker !== null && packet.delayMs === 0;
  if (claims && isPlain(packet) && table.flowState(packet.flow) === "active") return claimed(tally, rowOf(packet, now, worker));
  const row = rowOf(packet, now);
  if (packet.failed !== undefined) {
    table.insert(row);
    const kept = toDead(tally, row, { history: packet.failed });
    tally.note(row, kept ? "dead" : "dropped");
    tally.add(row, { dead: kept ? 1 : 0 });
    if (!kept) tally.narrow(row);
    return { kind: "dead" };
  }
  // The node that joins may wait for nothing else now; or the parts that it still has wait for a port that this packet filled.
  if (packet.join !== null) tally.narrow(row);
  const whole = packet.join === null ? row : join(tally, row, packet.join);
  if (whole === undefined) {
    table.insert({ ...row, state: "part", dueAt: now + (packet.join as NewPart).waitMs });
    return { kind: "part" };
  }
  const entered: PacketRow = { ...whole, ...enterLane(table, whole, whole.lane) };
  if (claims && entered.state === "due" && table.flowState(packet.flow) === "active") return claimAtOnce(tally, entered, worker);
  table.insert(entered);
  tally.add(entered, { open: 1 });
  return { kind: entered.state === "held" ? "held" : "due" };
}

/** Whether nothing can hold the packet: it has no key, no lane and no join. */
function isPlain({ key, lane, join: part, failed }: NewPacket): boolean {
  return key === null && lane === null && part === null && failed === undefined;
}

function claimed(tally: Tally, packet: PacketRow): Placed {
  tally.table.insert(packet);
  tally.add(packet, { open: 1 });
  return { kind: "claimed", packet };
}

function claimAtOnce(tally: Tally, row: PacketRow, worker: number): Placed {
  const { table } = tally;
  const verdict = row.key === null ? ownsKey : beginKey(tally, row.no, row.key);
  if (verdict.kind === "owner") return claimed(tally, { ...row, owner: worker, attempt: 1 });
  if (verdict.kind === "held") {
    table.insert({ ...row, state: "held", hold: "key", dueAt: verdict.dueAt });
    tally.add(row, { open: 1 });
    return { kind: "held" };
  }
  tally.note(row, verdict.kind, row.key?.key ?? null);
  if (verdict.kind === "mismatch" && row.key?.onMismatch === "deadLetter") {
    table.insert(row);
    const kept = toDead(tally, row, { note: "mismatch" });
    tally.add(row, { dead: kept ? 1 : 0 });
    if (!kept) tally.narrow(row);
    return { kind: "dead" };
  }
  tally.add(row, { duplicates: 1 });
  tally.narrow(row);
  return { kind: verdict.kind };
}

/** Joins the packet with the oldest part of every other port. Undefined: a port has no part yet. */
function join({ table }: Tally, row: PacketRow, { node, port, ports }: NewPart): PacketRow | undefined {
  assert(row.execution !== null, "a packet that is joined belongs to an execution");
  const waiting = table.parts(row.execution, node);
  const others = ports.filter((name) => name !== port).map((name) => waiting.find(({ part }) => part?.port === name));
  if (others.includes(undefined)) return undefined;
  for (const other of others as PacketRow[]) table.remove(other);
  return joinedRow(row, others as PacketRow[]);
}
