import type { NewPart } from "../operation.js";
import type { ExecutionNote } from "../packet.js";
import { enterLane } from "./lane.js";
import type { Census, PacketChanges, PacketRow, PacketTable } from "./table.js";

/** Ports of a node that joins, and the parts that wait at them. */
interface WaitingJoin {
  readonly node: string;
  readonly ports: readonly string[];
  readonly optional: readonly string[];
  /** Oldest first. */
  readonly parts: readonly PacketRow[];
}

interface JoinChanges extends PacketChanges {
  note(row: PacketRow, kind: ExecutionNote["kind"], about: string): void;
}

/** Of the execution, with what the operation has changed so far. */
interface Counts {
  open: number;
  readonly dead: number;
}

/**
 * Decides the joins of an execution whose empty ports cannot be filled any more, because no packet of the execution can still reach
 * them:
 *
 * - all of them are optional: the oldest part of each other port is delivered. The execution has one more open packet.
 * - one of them is needed: the parts are removed, and the node is not called.
 *
 * A dead letter can be retried, so a port that it may still fill is waited for. A part that is removed or delivered may decide the next
 * join behind it: the loop ends when no join was decided. An execution with packets whose reach is not known decides nothing here;
 * its parts are closed when it ends.
 */
export function releaseJoins(changes: JoinChanges, execution: number, counts: Counts): void {
  const { table } = changes;
  for (let more = true; more; ) {
    const parts = table.parts(execution);
    if (parts.length === 0 || parts.some(({ reach }) => reach === null)) return;
    const census = table.census(execution);
    if (census.open !== counts.open || census.dead !== counts.dead) return;
    more = joinsOf(parts).some((join) => decideJoin(changes, join, census, counts));
  }
}

/** Returns whether anything changed. */
function decideJoin(changes: JoinChanges, join: WaitingJoin, census: Census, counts: Counts): boolean {
  const { node, ports, optional, parts } = join;
  const empty = ports.filter((port) => !parts.some(({ part }) => part?.port === port));
  const unfillable = empty.filter((port) => !census.ports.has(portName(node, port)));
  const needed = unfillable.filter((port) => !optional.includes(port));
  if (needed.length > 0) skip(changes, parts, needed);
  else if (unfillable.length > 0 && unfillable.length === empty.length) deliver(changes, join, empty, counts);
  else return false;
  return true;
}

function skip(changes: JoinChanges, parts: readonly PacketRow[], needed: readonly string[]): void {
  for (const part of parts) {
    changes.table.remove(part);
    changes.note(part, "joinSkipped", namesOf(part, needed));
    changes.wake(part, "closed");
  }
}

/** As many deliveries as the filled port with the fewest parts has. */
function deliver(changes: JoinChanges, { ports, parts }: WaitingJoin, empty: readonly string[], counts: Counts): void {
  const { table, now } = changes;
  const filled = ports.map((port) => parts.filter(({ part }) => part?.port === port)).filter((waiting) => waiting.length > 0);
  const deliveries = Math.min(...filled.map((waiting) => waiting.length));
  for (let i = 0; i < deliveries; i += 1) {
    const rows = filled.map((waiting) => wholeRow(table, waiting[i] as PacketRow));
    const [first, ...others] = rows as [PacketRow, ...PacketRow[]];
    for (const row of rows) table.remove(row);
    const joined = { ...joinedRow(first, others), state: "due", dueAt: now } as const;
    table.insert({ ...joined, ...enterLane(table, joined, joined.lane) });
    changes.note(first, "joinReleased", namesOf(first, empty));
    changes.wake(first, "due");
  }
  counts.open += deliveries;
}

/** The row of a packet that is delivered with these parts at the other ports of its node. They must be removed. */
export function joinedRow(row: PacketRow, others: readonly PacketRow[]): PacketRow {
  const { node, port, ports } = row.part as NewPart;
  const parts: Record<string, { no: number; payload: string }> = {};
  const keys = new Map([[port, row.key]]);
  for (const { no, payload, key, part } of others) {
    const name = (part as NewPart).port;
    parts[name] = { no, payload };
    keys.set(name, key);
  }
  const key = ports.map((name) => keys.get(name)).find((each) => each) ?? null;
  const own = portName(node, port);
  return { ...row, key, parts, reach: row.reach?.filter((name) => name !== own) ?? null };
}

/** The name of a join's port in `reach`. */
export function portName(node: string, port: string): string {
  return `${node}.${port}`;
}

/** With its payload, which a table may have left out of `parts`. */
function wholeRow(table: PacketTable, { no }: PacketRow): PacketRow {
  return table.packet(no) as PacketRow;
}

function namesOf({ part }: PacketRow, ports: readonly string[]): string {
  return ports.map((port) => portName((part as NewPart).node, port)).join(", ");
}

function joinsOf(parts: readonly PacketRow[]): WaitingJoin[] {
  const nodes = [...new Set(parts.map(({ part }) => (part as NewPart).node))];
  return nodes.map((node) => {
    const waiting = parts.filter(({ part }) => part?.node === node);
    const { ports, optional = [] } = (waiting[0] as PacketRow).part as NewPart;
    return { node, ports, optional, parts: waiting };
  });
}
