import type { AttemptEntry, LedgerRecord, RecordId } from "../../ledger/record.js";
import type { EntryToWrite } from "../delivery-entry.js";
import type { DeadLetter, NewPart, Woken } from "../operation.js";
import type { ExecutionNote, ExecutionRecord, FlowState, PacketRecord } from "../packet.js";

/**
 * The rows that the packet rules read and write, under one lock and without an await in between. Memory and SQLite
 * access their rows directly. PostgreSQL locks and reads all rows that a flush may touch, applies the rules to them in
 * memory, and then writes the changes.
 */
export interface PacketTable {
  now(): number;

  packet(no: number): PacketRow | undefined;
  insert(row: PacketRow): void;
  change(row: PacketRow, to: Partial<PacketRow>): void;
  remove(row: PacketRow): void;
  /** Optional shortcut: removes and returns the row if (worker, attempt) own it. Undefined: fall back to `packet`. */
  take?(no: number, worker: number, attempt: number): PacketRow | undefined;
  /** Packets without an owner, neither dead nor kept, that are due at `now`; ordered by (dueAt, no). */
  due(queue: QueueId, now: number, limit: number): readonly PacketRow[];
  /** When the first packet of the queue is due. Null: the queue has none, or all of them wait for another packet. */
  nextDue(queue: QueueId): number | null;
  ownedBy(worker: number): readonly PacketRow[];

  /** The highest position in a lane. Null: the lane is empty. */
  lastPlace(queue: QueueId, lane: string): number | null;
  /** The packet with the lowest position in a lane. */
  head(queue: QueueId, lane: string): PacketRow | undefined;
  /** Packets that are held because of this key, ordered by (createdAt, no). */
  heldBy(key: RecordId, limit: number): readonly PacketRow[];
  /** Waiting parts of an execution, or of one of its nodes; ordered by (createdAt, no). */
  parts(execution: number, node?: string): readonly PacketRow[];
  census(execution: number): Census;

  record(id: RecordId): LedgerRecord | undefined;
  putRecord(next: LedgerRecord, past: AttemptEntry | undefined): void;
  /** Optional: remembers the record as this packet began it. */
  begun?(no: number, record: LedgerRecord): void;
  /** Optional shortcut: replaces the remembered record if the store still has it unchanged. False: fall back to `record`. */
  settleBegun?(no: number, settled: (record: LedgerRecord) => LedgerRecord | undefined): boolean;

  execution(no: number): ExecutionSums | undefined;
  insertExecution(row: ExecutionRow): void;
  changeExecution(row: ExecutionSums, to: ExecutionChange): void;
  removeKept(execution: number): void;
  /** Writes no note if the execution was purged. */
  note(execution: number, note: ExecutionNote): void;
  /** Adds to the history of an execution, or notes that the history is full. Writes nothing if the execution was purged. */
  addEntry(entry: EntryToWrite): void;

  flowState(flow: string): FlowState;
  /** The end of the worker's lease. Undefined: the store no longer knows the worker. */
  worker(no: number): number | undefined;
  lapsedWorkers(now: number): readonly number[];
  /** When the first lease of another worker ends. */
  nextLapse(except: number): number | null;
  removeWorker(no: number): void;
}

/** What `lane.ts` and `dead.ts` need from their caller: its table, its time, and a callback for packets that become due. */
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
  /** For a held packet: whether it waits for its key or for its lane. */
  readonly hold: "key" | "lane" | null;
  /** Position in the lane. Null: the packet has no lane, or gave up its position when it became a dead letter. */
  readonly place: number | null;
  readonly deadBlocks: boolean;
  readonly part: NewPart | null;
  readonly letter: DeadLetter | null;
  /** Ports of joins that the packet may still fill. Null: not known, or the flow has no joins. */
  readonly reach: readonly string[] | null;
}

/** The packets of one execution that have a `reach`, without kept ones. */
export interface Census {
  /** How many are due, held or claimed. */
  readonly open: number;
  /** How many are dead letters. */
  readonly dead: number;
  /** All ports that one of them may still fill, parts and dead letters included. */
  readonly ports: ReadonlySet<string>;
}

export interface ExecutionRow extends ExecutionRecord {
  readonly retentionMs: number | null;
}

/** The members of an execution that the rules read, and those that they change. */
export type ExecutionSums = Pick<ExecutionRow, "no" | "flow" | "open" | "duplicates" | "dead" | "endedAt" | "outputs" | "retentionMs">;
export type ExecutionChange = Pick<ExecutionRow, "open" | "duplicates" | "dead" | "endedAt" | "outputs">;
