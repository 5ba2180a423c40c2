import type { AttemptEntry, LedgerRecord, RecordId } from "../../ledger/record.js";
import type { DeadLetter, NewPart, Woken } from "../operation.js";
import type { ExecutionNote, ExecutionRecord, FlowState, PacketRecord } from "../packet.js";

/**
 * The rows that the verbs of packets read and write, under one lock and without an await in between. Memory and SQLite
 * read and write their rows directly. PostgreSQL locks and reads all rows that a flush may touch, lets the verbs change them in
 * memory, and then writes the changes.
 */
export interface PacketTable {
  now(): number;

  packet(no: number): PacketRow | undefined;
  insert(row: PacketRow): void;
  change(row: PacketRow, to: Partial<PacketRow>): void;
  remove(row: PacketRow): void;
  /** Optional short cut: removes the row if (worker, attempt) own it, and returns it. Undefined: fall back to `packet`. */
  take?(no: number, worker: number, attempt: number): PacketRow | undefined;
  /** Packets without an owner, neither dead nor kept, that are due by `now`; ordered by (dueAt, no). */
  due(queue: QueueId, now: number, limit: number): readonly PacketRow[];
  /** When the first packet of the queue is due. Null: the queue has none, or all of them wait for another packet. */
  nextDue(queue: QueueId): number | null;
  ownedBy(worker: number): readonly PacketRow[];

  /** The highest place that is taken in a lane. */
  lastPlace(queue: QueueId, lane: string): number | null;
  /** The packet with the lowest place of a lane. */
  head(queue: QueueId, lane: string): PacketRow | undefined;
  /** Packets that this key holds, ordered by (createdAt, no). */
  heldBy(key: RecordId, limit: number): readonly PacketRow[];
  /** Waiting parts of an execution, or of one of its nodes; ordered by (createdAt, no). */
  parts(execution: number, node?: string): readonly PacketRow[];

  record(id: RecordId): LedgerRecord | undefined;
  putRecord(next: LedgerRecord, past: AttemptEntry | undefined): void;
  /** Optional: remember the record as this packet began it. */
  begun?(no: number, record: LedgerRecord): void;
  /** Optional short cut: replaces that record if the store still has it unchanged. False: fall back to `record`. */
  settleBegun?(no: number, settled: (record: LedgerRecord) => LedgerRecord | undefined): boolean;

  execution(no: number): ExecutionSums | undefined;
  insertExecution(row: ExecutionRow): void;
  changeExecution(row: ExecutionSums, to: ExecutionChange): void;
  removeKept(execution: number): void;
  /** Writes no note if the execution was purged. */
  note(execution: number, note: ExecutionNote): void;

  flowState(flow: string): FlowState;
  /** The end of the worker's lease. Undefined: the store no longer knows the worker. */
  worker(no: number): number | undefined;
  lapsedWorkers(now: number): readonly number[];
  /** When the first lease of another worker ends. */
  nextLapse(except: number): number | null;
  removeWorker(no: number): void;
}

/** What the rules need from the verb that calls them: its table, its time, and a way to report packets that it wakes. */
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
  /** Of a held packet: whether its key or its lane holds it. */
  readonly hold: "key" | "lane" | null;
  /** The packet's place in its lane. Null: it has no lane, or gave its place up when it became a dead letter. */
  readonly place: number | null;
  readonly deadBlocks: boolean;
  readonly part: NewPart | null;
  readonly letter: DeadLetter | null;
}

export interface ExecutionRow extends ExecutionRecord {
  readonly retentionMs: number | null;
}

/** The members of an execution that the verbs read, and those that they change. */
export type ExecutionSums = Pick<ExecutionRow, "no" | "flow" | "open" | "duplicates" | "dead" | "endedAt" | "outputs" | "retentionMs">;
export type ExecutionChange = Pick<ExecutionRow, "open" | "duplicates" | "dead" | "endedAt" | "outputs">;
