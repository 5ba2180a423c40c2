import { type AttemptEntry, type LedgerRecord, type RecordId, rowOf } from "../../core/ledger/record.js";
import type { EntryToWrite } from "../../core/packets/delivery-entry.js";
import type { ExecutionNote, FlowState } from "../../core/packets/packet.js";
import type { ExecutionRow, PacketRow, QueueId } from "../../core/packets/rules/table.js";
import { MemoryTable } from "./memory-table.js";
import { laneName, Wishes } from "./packet-wishes.js";

/** The rows that a transaction has read. */
export interface Loaded {
  readonly now: number;
  readonly packets: readonly PacketRow[];
  readonly executions: readonly ExecutionRow[];
  /** Executions of which all parts were read. */
  readonly whole: ReadonlySet<number>;
  /** The packets of these executions that have a reach: how many there are of each kind. */
  readonly reaching: readonly Reaching[];
  readonly records: readonly LedgerRecord[];
  readonly flows: ReadonlyMap<string, FlowState>;
  readonly workers: ReadonlyMap<number, number>;
}

export interface Reaching extends Pick<PacketRow, "execution" | "state" | "reach"> {
  readonly count: number;
}

/** What other transactions cannot change until this one ends: names of lanes (`laneName`), executions, and keys (`rowOf`). */
export interface LockedRows {
  readonly lanes: ReadonlySet<string>;
  readonly executions: ReadonlySet<number>;
  readonly keys: ReadonlySet<string>;
}

/** The rules needed a row that was not locked and read. The transaction is retried with it. */
export class Missing extends Error {
  readonly wishes = new Wishes();
}

export interface PacketChanges {
  readonly removed: readonly number[];
  readonly inserted: readonly PacketRow[];
  readonly changed: readonly PacketRow[];
  readonly begun: readonly ExecutionRow[];
  readonly executions: readonly ExecutionRow[];
  /** Executions that have ended: their kept packets are removed. */
  readonly ended: readonly number[];
  readonly notes: readonly (ExecutionNote & { readonly execution: number })[];
  readonly entries: readonly EntryToWrite[];
  /** Each with the revision that was read; 0 if there was no record. */
  readonly records: readonly { readonly next: LedgerRecord; readonly was: number }[];
  readonly past: readonly (AttemptEntry & RecordId)[];
}

/** The rows that a transaction has locked and read. The rules change them in memory, and the changes are written afterwards. */
export class LoadedTable extends MemoryTable {
  readonly #packets: ReadonlyMap<number, PacketRow>;
  readonly #executions: ReadonlyMap<number, ExecutionRow>;
  readonly #whole: Set<number>;
  readonly #revisions: ReadonlyMap<string, number>;
  readonly #wishes: Wishes;
  readonly #locked: LockedRows;
  readonly #next = new Map<string, LedgerRecord>();
  readonly #past: (AttemptEntry & RecordId)[] = [];
  readonly #ended: number[] = [];
  readonly #entries: EntryToWrite[] = [];

  constructor(loaded: Loaded, locked: LockedRows, wishes: Wishes) {
    const records = new Map(loaded.records.map((record) => [rowOf(record), record]));
    super(() => loaded.now, {
      get: (id) => this.#next.get(rowOf(id)) ?? records.get(rowOf(id)),
      put: (next, past) => {
        this.#next.set(rowOf(next), next);
        if (past) this.#past.push({ scope: next.scope, key: next.key, ...past });
      },
    });
    this.#wishes = wishes;
    this.#locked = locked;
    this.#revisions = new Map([...records].map(([id, { rev }]) => [id, rev]));
    this.#whole = new Set(loaded.whole);
    // Rows of a lane in the order of their positions: the first one inserted is the head.
    for (const row of [...loaded.packets].sort((a, b) => (a.place ?? 0) - (b.place ?? 0))) this.insert(row);
    // Counted in the database, where packets are that were not read.
    for (const no of loaded.whole) this.censuses.forget(no);
    for (const { count, ...group } of loaded.reaching) this.censuses.add(group, count);
    for (const row of loaded.executions) super.insertExecution(row);
    for (const [flow, state] of loaded.flows) this.flows.set(flow, state);
    for (const [no, until] of loaded.workers) this.workers.set(no, until);
    this.#packets = new Map(this.packets);
    this.#executions = new Map(this.executions);
  }

  override packet(no: number): PacketRow | undefined {
    // A part that was read with its execution has no payload yet.
    if (!this.#wishes.packets.has(no)) throw missing((wishes) => wishes.packets.add(no));
    return super.packet(no);
  }

  override lastPlace(queue: QueueId, lane: string): number | null {
    this.#requireLane(queue, lane);
    return super.lastPlace(queue, lane);
  }

  override head(queue: QueueId, lane: string): PacketRow | undefined {
    this.#requireLane(queue, lane);
    return super.head(queue, lane);
  }

  override heldBy(key: RecordId, limit: number): PacketRow[] {
    this.#requireKey(key);
    return super.heldBy(key, limit);
  }

  override record(id: RecordId): LedgerRecord | undefined {
    this.#requireKey(id);
    return super.record(id);
  }

  override parts(execution: number, node?: string): PacketRow[] {
    if (node === undefined && this.#executions.has(execution) && !this.#whole.has(execution))
      throw missing((wishes) => wishes.execution(execution).ends.add(execution));
    return super.parts(execution, node);
  }

  override execution(no: number): ExecutionRow | undefined {
    const there = this.#executions.has(no);
    if (there ? !this.#locked.executions.has(no) : !this.#wishes.executions.has(no)) throw missing((wishes) => wishes.execution(no));
    return super.execution(no);
  }

  override note(execution: number, note: ExecutionNote): void {
    // Not if the execution was purged.
    if (this.execution(execution) !== undefined) super.note(execution, note);
  }

  /** How many entries the execution has is counted where the entry is written. */
  override addEntry(entry: EntryToWrite): void {
    this.#entries.push(entry);
  }

  override removeKept(execution: number): void {
    super.removeKept(execution);
    this.#ended.push(execution);
  }

  changes(): PacketChanges {
    const [packets, executions] = [[...this.packets.values()], [...this.executions.values()]];
    return {
      // Kept packets are removed when their execution ends.
      removed: [...this.#packets.values()].filter(({ no, state }) => state !== "kept" && !this.packets.has(no)).map(({ no }) => no),
      inserted: packets.filter(({ no }) => !this.#packets.has(no)),
      changed: packets.filter((row) => this.#packets.has(row.no) && this.#packets.get(row.no) !== row),
      begun: executions.filter(({ no }) => !this.#executions.has(no)),
      executions: executions.filter((row) => this.#executions.has(row.no) && this.#executions.get(row.no) !== row),
      ended: this.#ended,
      notes: [...this.notes].flatMap(([execution, notes]) => notes.map((note) => ({ execution, ...note }))),
      entries: this.#entries,
      records: [...this.#next].map(([id, next]) => ({ next, was: this.#revisions.get(id) ?? 0 })),
      past: this.#past,
    };
  }

  #requireLane(queue: QueueId, lane: string): void {
    if (!this.#locked.lanes.has(laneName({ ...queue, lane }))) throw missing((wishes) => wishes.lane(queue, lane));
  }

  /** A record that was created after the lock statement is not locked: its owner could settle it without seeing that a packet waits. */
  #requireKey(id: RecordId): void {
    const row = rowOf(id);
    const there = this.#revisions.has(row);
    if (there ? !this.#locked.keys.has(row) : !this.#wishes.keys.has(row)) throw missing((wishes) => wishes.key(id));
  }
}

function missing(wish: (wishes: Wishes) => void): Missing {
  const error = new Missing("a row is needed that was not read");
  wish(error.wishes);
  return error;
}
