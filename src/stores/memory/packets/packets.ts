import type { DeliveryEntry, DeliveryQuery } from "../../../core/packets/delivery-entry.js";
import type {
  ExecutionQuery,
  PacketAnswer,
  PacketBackend,
  PacketOperation,
  PageCursor,
  QueueCount,
} from "../../../core/packets/operation.js";
import { type FlowState, type PacketRecord, statusOf, workerNumber } from "../../../core/packets/packet.js";
import { actOnce, changeLetters } from "../../../core/packets/rules/act.js";
import { claimPackets } from "../../../core/packets/rules/claim.js";
import { discard, reinject } from "../../../core/packets/rules/letters.js";
import { sendPackets } from "../../../core/packets/rules/send.js";
import { settlePacket } from "../../../core/packets/rules/settle.js";
import type { ExecutionRow, PacketRow } from "../../../core/packets/rules/table.js";
import { leaveWork } from "../../../core/packets/rules/worker.js";
import type { OperatorLog } from "../../../core/runs/log.js";
import { attributeText } from "../../../core/values/attributes.js";
import { MemoryTable, type Records } from "../../shared/memory-table.js";

/** The packets of a store in memory. Several backends on one of these behave like several processes on one database. */
export interface MemoryPackets {
  readonly table: MemoryTable;
  readonly watchers: Set<() => void>;
  /** The last worker number that was assigned. */
  joined: number;
}

export function createMemoryPackets(now: () => number, records: Records): MemoryPackets {
  return { table: new MemoryTable(now, records), watchers: new Set(), joined: 0 };
}

/** Every method is atomic, because it has no await inside. */
export function memoryPacketBackend(memory: MemoryPackets, log: OperatorLog): PacketBackend {
  const { table, watchers } = memory;
  const notify = () => {
    for (const watcher of watchers) watcher();
  };
  return {
    async flush(operations) {
      const answers = operations.map((operation) => apply(table, operation));
      if (answers.some((answer, i) => mayMakeDue(operations[i] as PacketOperation, answer))) notify();
      return answers;
    },
    async join({ leaseMs }) {
      memory.joined = workerNumber(memory.joined + 1);
      table.workers.set(memory.joined, table.now() + leaseMs);
      return memory.joined;
    },
    async renew(worker, leaseMs) {
      if (!table.workers.has(worker)) return false;
      table.workers.set(worker, table.now() + leaseMs);
      return true;
    },
    async leave(worker) {
      leaveWork(table, worker);
      notify();
    },
    claim: async (query) => claimPackets(table, query),
    async reinject(no, alert) {
      const done = reinject(table, no, alert) !== undefined;
      notify();
      return done;
    },
    async discard(no) {
      const done = discard(table, no) !== undefined;
      notify();
      return done;
    },
    async act(action) {
      const answer = actOnce(log, action, (change) => {
        if (change.kind !== "flow") return changeLetters(table, change) > 0;
        table.flows.set(change.flow, change.state);
        return true;
      });
      notify();
      return answer;
    },
    packet: async (no) => table.packet(no),
    async deadLetters({ flow, name, before, limit }) {
      const wanted = ({ dead, no, flow: of }: PacketRow) =>
        dead !== null && isBefore(before, dead.at, no) && of === (flow ?? of) && dead.name === (name ?? dead.name);
      const died = ({ dead }: PacketRow) => dead?.at ?? 0;
      return [...table.packets.values()]
        .filter(wanted)
        .sort((a, b) => died(b) - died(a) || b.no - a.no)
        .slice(0, limit);
    },
    execution: async (no) => table.execution(no),
    async executions({ flow, status, scope, attribute, before, limit }) {
      const wanted = (row: ExecutionRow) =>
        isBefore(before, row.createdAt, row.no) &&
        (row.scope ?? "") === (scope ?? row.scope ?? "") &&
        hasAttribute(row, attribute) &&
        row.flow === (flow ?? row.flow) &&
        statusOf(row) === (status ?? statusOf(row));
      return [...table.executions.values()]
        .filter(wanted)
        .sort((a, b) => b.createdAt - a.createdAt || b.no - a.no)
        .slice(0, limit);
    },
    notes: async (execution, limit) => (table.notes.get(execution) ?? []).slice(0, limit),
    deliveries: async (query) => deliveriesOf(table, query),
    packetsOf: async (execution, limit) => [...table.packets.values()].filter((row) => row.execution === execution).slice(0, limit),
    counts: async () => countsOf(table.packets.values()),
    flowState: async (flow) => table.flowState(flow),
    async setFlowState(flow, state: FlowState) {
      table.flows.set(flow, state);
      notify();
    },
    purge: async (limit) => purge(table, limit),
    watch(changed) {
      watchers.add(changed);
      return () => void watchers.delete(changed);
    },
  };
}

/** Whether other workers may have packets to claim after this, now or later. */
function mayMakeDue(operation: PacketOperation, answer: PacketAnswer): boolean {
  if (operation.verb === "settlePacket" && operation.to.kind !== "done") return true;
  if (answer.kind === "packetSettled" && answer.woken.length > 0) return true;
  return "placed" in answer && answer.placed.some(({ kind }) => kind !== "claimed");
}

function apply(table: MemoryTable, operation: PacketOperation) {
  return operation.verb === "sendPackets" ? sendPackets(table, operation) : settlePacket(table, operation);
}

function deliveriesOf(table: MemoryTable, { execution, packets, after, limit }: DeliveryQuery): DeliveryEntry[] {
  const all = execution === undefined ? [...table.entries.values()].flat() : (table.entries.get(execution) ?? []);
  return all
    .filter((entry) => (packets?.includes(entry.packet) ?? true) && (after === undefined || byEnd(entry, after) > 0))
    .sort(byEnd)
    .slice(0, limit);
}

type Ordered = Pick<DeliveryEntry, "at" | "packet" | "attempt">;

function byEnd(a: Ordered, b: Ordered): number {
  return a.at - b.at || a.packet - b.packet || a.attempt - b.attempt;
}

function hasAttribute({ attributes }: ExecutionRow, wanted: ExecutionQuery["attribute"]): boolean {
  if (wanted === undefined) return true;
  const { name, text } = wanted;
  const value = attributes !== undefined && Object.hasOwn(attributes, name) ? attributes[name] : undefined;
  return value !== undefined && attributeText(value) === text;
}

function purge(table: MemoryTable, limit: number): number {
  const now = table.now();
  let gone = 0;
  // The oldest come first, so a batch visits few of them.
  for (const { no, endedAt, retentionMs } of table.executions.values()) {
    if (gone === limit) return gone;
    if (endedAt === null || retentionMs === null || endedAt + retentionMs > now) continue;
    table.executions.delete(no);
    table.notes.delete(no);
    table.entries.delete(no);
    gone += 1;
  }
  const over = [...table.packets.values()].filter((row) => expiryOf(row) <= now).sort((a, b) => expiryOf(a) - expiryOf(b) || a.no - b.no);
  for (const { no } of over.slice(0, limit - gone)) discard(table, no);
  return gone + Math.min(over.length, limit - gone);
}

function expiryOf({ dead }: PacketRow): number {
  return dead?.expiresAt ?? Number.POSITIVE_INFINITY;
}

function countsOf(packets: Iterable<PacketRecord>): QueueCount[] {
  const counts = new Map<string, { -readonly [K in keyof QueueCount]: QueueCount[K] }>();
  for (const { flow, queue, state, owner } of packets) {
    const name = `${flow}\0${queue}`;
    const count = counts.get(name) ?? { flow, queue, due: 0, held: 0, parts: 0, owned: 0, dead: 0 };
    counts.set(name, count);
    if (owner !== null) count.owned += 1;
    else if (state === "part") count.parts += 1;
    else if (state !== "kept") count[state] += 1;
  }
  return [...counts.values()];
}

function isBefore(cursor: PageCursor | undefined, at: number, no: number): boolean {
  return cursor === undefined || at < cursor.at || (at === cursor.at && no < cursor.no);
}
