import type { NewPacket, PacketAnswer, PacketOperation, Placed, SendPackets, SettlePacket } from "../../../../core/packets/operation.js";
import { rowOf } from "../../../../core/packets/rules/row.js";
import { reachText } from "../../../shared/census-book.js";
import { codeOf } from "../../errors.js";
import { binaryColumns } from "../../parameters/binary-array.js";
import { arrayLiteral, type Columns, type Scalar } from "../../parameters/columns.js";
import { ask, type PacketConnection } from "../ask.js";
import { termsOf } from "../row.js";
import { list } from "../transaction/lock.js";
import { beginColumns, type QuickParts, quickStatement, sentColumns, settleColumns } from "./statement.js";

interface Answer {
  readonly now?: number;
  /** Numbers of the settles that were done, from 1. */
  readonly done?: readonly number[] | null;
}

/** Runs the quick statement. Undefined for an operation that needs a transaction. */
export async function quickPackets(
  connection: PacketConnection,
  operations: readonly PacketOperation[],
): Promise<(PacketAnswer | undefined)[]> {
  const settles = operations.filter((operation) => operation.verb === "settlePacket").filter(isPlainSettle);
  const sends = operations.filter((operation) => operation.verb === "sendPackets").filter(isPlainSend);
  if (settles.length + sends.length === 0) return operations.map(() => undefined);
  const { now, done } = await tried(() => send(connection, settles, sends));
  if (now === undefined) return operations.map(() => undefined);
  const gone = new Set(done);
  const numbers = new Map(settles.map((settle, i) => [settle, i + 1]));
  return operations.map((operation) => {
    const placed = () => operation.packets.map((packet) => placedOf(packet, operation.worker, now));
    if (operation.verb === "sendPackets")
      return isPlainSend(operation) ? { kind: "packetsSent", now, placed: placed(), ended: [] } : undefined;
    if (!gone.has(numbers.get(operation) ?? 0)) return undefined;
    return { kind: "packetSettled", now, placed: placed(), woken: [], ended: [] };
  });
}

async function send(connection: PacketConnection, settles: readonly SettlePacket[], sends: readonly SendPackets[]): Promise<Answer> {
  const sent = [
    ...settles.flatMap(({ packets, worker }, i) => packets.map((packet) => sentValues(packet, worker, i + 1))),
    ...sends.flatMap(({ packets, worker }) => packets.map((packet) => sentValues(packet, worker, null))),
  ];
  const begun = sends.map(({ execution, packets }) => execution && beginValues(execution, packets.length)).filter((row) => row !== null);
  const all = [...settles, ...sends];
  const parts: QuickParts = {
    settles: settles.length > 0,
    executions: begun.length > 0,
    notifies: all.some(({ packets }) => packets.some((packet) => !isClaimed(packet))),
  };
  const flows = new Set([
    ...all.flatMap(({ packets }) => packets.map(({ flow }) => flow)),
    ...sends.map(({ execution }) => execution?.flow ?? ""),
  ]);
  const values = [
    arrayLiteral([...flows]),
    list(new Set(all.map(({ worker }) => worker))),
    ...arraysOf(settles.map(settleValues), settleColumns),
    ...arraysOf(begun, beginColumns),
    ...(sent.length === 0 ? sentColumns.map(() => "{}") : binaryColumns(sent, sentColumns)),
  ];
  return await ask<Answer>(connection, statementOf(parts), values);
}

/** A duplicate key means that a row existed: the operation was sent again, or its number was used twice. Then nothing was done. */
async function tried(work: () => Promise<Answer>): Promise<Answer> {
  try {
    return await work();
  } catch (error) {
    if (/^(23505|40001|40P01|55P03)$/.test(codeOf(error))) return {};
    throw error;
  }
}

/** Whether a settle sends exactly one packet, so that the open count of its execution does not change, or has no execution. */
function isPlainSettle({ to, packets, outputs, entry }: SettlePacket): boolean {
  if (entry !== undefined) return false;
  if (to.kind !== "done" || to.keep || to.note !== null || outputs.length > 0 || !packets.every(isPlain)) return false;
  return packets.length === 1 || packets.every(({ execution }) => execution === null);
}

function isPlainSend({ execution, packets }: SendPackets): boolean {
  if (packets.length === 0 || !packets.every(isPlain) || (execution !== null && !isPlainExecution(execution))) return false;
  return packets.every((packet) => packet.execution === (execution?.no ?? null));
}

function isPlainExecution({ key, scope, attributes }: NonNullable<SendPackets["execution"]>): boolean {
  return key === null && scope === undefined && attributes === undefined;
}

/** Members that the statement can write, or that must be null. */
const known = new Set(["no", "flow", "queue", "execution", "payload", "key", "lane", "join", "letter", "delayMs", "claim", "reach"]);

/** Whether the quick statement can write the packet: it has no key, lane or join, and no member that the statement does not know. */
function isPlain(packet: NewPacket): boolean {
  if (packet.key !== null || packet.lane !== null || packet.join !== null) return false;
  for (const name in packet) if (!known.has(name) && packet[name as keyof NewPacket] !== undefined) return false;
  return true;
}

function isClaimed({ claim, delayMs }: NewPacket): boolean {
  return claim && delayMs === 0;
}

function placedOf(packet: NewPacket, worker: number, now: number): Placed {
  if (!isClaimed(packet)) return { kind: "due" };
  return { kind: "claimed", packet: rowOf(packet, now, worker) };
}

/** A settle without packets has no execution here: see `isPlainSettle`. */
function settleValues({ no, worker, attempt, packets }: SettlePacket): Scalar[] {
  return [no, worker, attempt, packets[0]?.execution ?? null, reachText(packets[0]?.reach ?? null)];
}

function beginValues({ no, flow, entry, input, retentionMs }: NonNullable<SendPackets["execution"]>, open: number): Scalar[] {
  return [no, flow, entry, input, retentionMs, open];
}

function sentValues(packet: NewPacket, worker: number, of: number | null): Scalar[] {
  const { no, flow, queue, execution, payload, delayMs } = packet;
  return [
    no,
    flow,
    queue,
    execution,
    payload,
    termsOf({ key: null, part: null, letter: packet.letter, deadBlocks: false }),
    delayMs,
    isClaimed(packet) ? worker : null,
    reachText(packet.reach ?? null),
    of,
  ];
}

/** None where there is nothing of the kind: the statement has no part for it then. */
function arraysOf(rows: readonly (readonly Scalar[])[], columns: Columns): Buffer[] {
  return rows.length === 0 ? [] : binaryColumns(rows, columns);
}

const statements = new Map<string, { readonly name: string; readonly text: string }>();

function statementOf(parts: QuickParts): { readonly name: string; readonly text: string } {
  const name = `quick-${parts.settles ? "s" : ""}${parts.executions ? "x" : ""}${parts.notifies ? "t" : ""}`;
  const statement = statements.get(name) ?? { name, text: quickStatement(parts) };
  statements.set(name, statement);
  return statement;
}
