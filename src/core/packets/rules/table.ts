import type { AttemptEntry, LedgerRecord, RecordId } from "../../ledger/record.js";
import type { DeadLetter, NewPart, Woken } from "../operation.js";
import type { ExecutionNote, ExecutionRecord, FlowState, PacketRecord } from "../packet.js";

/**
 * What the verbs of packets are made of: rows, read and written under one lock, without an await between. Memory and
 * SQLite are that by themselves. PostgreSQL locks and reads what a flush may touch, lets the verbs work on it in memory,
 * and writes what they changed.
 */
export interface PacketTable {
  now(): number;

  packet(no: number): PacketRow | undefined;
  insert(row: PacketRow): void;
  change(row: PacketRow, to: Partial<PacketRow>): void;
  remove(row: PacketRow): void;
  /** In one go: the row that a worker has, in this attempt, removed. Undefined: it has not, or `packet` has to be asked. */
  take?(no: number, worker: number, attempt: number): PacketRow | undefined;
  /** Nobody's, neither dead nor kept, due by now: the first that became so first, by (dueAt, no). */
  due(queue: QueueId, now: number, limit: number): readonly PacketRow[];
  /** When the first of these is due; null when none is, or all of them wait for another packet. */
  nextDue(queue: QueueId): number | null;
  ownedBy(worker: number): readonly PacketRow[];

  /** The last place of a lane that is taken, and the row with the first one. */
  lastPlace(queue: QueueId, lane: string): number | null;
  head(queue: QueueId, lane: string): PacketRow | undefined;
  /** Held by this key, oldest first, by (createdAt, no). */
  heldBy(key: RecordId, limit: number): readonly PacketRow[];
  /** Parts that wait, oldest first, by (createdAt, no); those of one node, or all. */
  parts(execution: number, node?: string): readonly PacketRow[];

  record(id: RecordId): LedgerRecord | undefined;
  putRecord(next: LedgerRecord, past: AttemptEntry | undefined): void;
  /** What the key of a packet has begun as, for whoever remembers that. */
  begun?(no: number, record: LedgerRecord): void;
  /** In one go: what is remembered, if it is still that, becomes what is made of it. False: `record` has to be asked. */
  settleBegun?(no: number, settled: (record: LedgerRecord) => LedgerRecord | undefined): boolean;

  execution(no: number): ExecutionSums | undefined;
  insertExecution(row: ExecutionRow): void;
  changeExecution(row: ExecutionSums, to: ExecutionChange): void;
  removeKept(execution: number): void;
  /** Nothing where the execution has been purged. */
  note(execution: number, note: ExecutionNote): void;

  flowState(flow: string): FlowState;
  /** The end of its lease; undefined when it is not known any more. */
  worker(no: number): number | undefined;
  lapsedWorkers(now: number): readonly number[];
  /** When the first lease of others ends. */
  nextLapse(except: number): number | null;
  removeWorker(no: number): void;
}

/** One verb at work: its table, its time, and how it reports packets that it wakes. */
export interface PacketChanges {
  readonly table: PacketTable;
  readonly now: number;
  wake(row: PacketRow, to: Woken["to"]): void;
}

export interface QueueId {
  readonly flow: string;
  readonly queue: string;
}

export interface PacketRow extends PacketRecord {
  /** What it is held by. */
  readonly hold: "key" | "lane" | null;
  /** Its place in its lane; null where it has none, or has left it as a dead letter. */
  readonly place: number | null;
  readonly deadBlocks: boolean;
  readonly part: NewPart | null;
  readonly letter: DeadLetter | null;
}

export interface ExecutionRow extends ExecutionRecord {
  readonly retentionMs: number | null;
}

/** What the verbs look at, and what they change of it. */
export type ExecutionSums = Pick<ExecutionRow, "no" | "flow" | "open" | "duplicates" | "dead" | "endedAt" | "outputs" | "retentionMs">;
export type ExecutionChange = Pick<ExecutionRow, "open" | "duplicates" | "dead" | "endedAt" | "outputs">;
