import { type AttemptEntry, type LedgerRecord, type RecordId, rowOf } from "../../core/ledger/record.js";
import { type DeliveryEntry, type EntryToWrite, fullEntry } from "../../core/packets/delivery-entry.js";
import { type ExecutionNote, type FlowState, notesMax } from "../../core/packets/packet.js";
import { untilWoken } from "../../core/packets/rules/lane.js";
import type {
  Census,
  ExecutionChange,
  ExecutionRow,
  ExecutionSums,
  PacketRow,
  PacketTable,
  QueueId,
} from "../../core/packets/rules/table.js";
import { CensusBook } from "./census-book.js";
import { DueHeap } from "./due-heap.js";

/** The part of the ledger that packets use. */
export interface Records {
  get(id: RecordId): LedgerRecord | undefined;
  put(next: LedgerRecord, past: AttemptEntry | undefined): void;
}

/** Packets in memory, with indexes for the queries of PacketTable. */
export class MemoryTable implements PacketTable {
  readonly packets = new Map<number, PacketRow>();
  readonly executions = new Map<number, ExecutionRow>();
  readonly notes = new Map<number, ExecutionNote[]>();
  readonly entries = new Map<number, DeliveryEntry[]>();
  readonly flows = new Map<string, FlowState>();
  readonly workers = new Map<number, number>();
  protected readonly censuses = new CensusBook();
  /** By queue: packets that may become due. */
  readonly #due = new Map<string, DueHeap>();
  /** Rows by worker, lane, key, and parts or kept packets of an execution. */
  readonly #groups = new Map<Group, Map<number, PacketRow>>();
  readonly #lastPlaces = new Map<Group, number>();
  readonly #records: Records;
  readonly now: () => number;

  constructor(now: () => number, records: Records) {
    this.now = now;
    this.#records = records;
  }

  packet(no: number): PacketRow | undefined {
    return this.packets.get(no);
  }

  insert(row: PacketRow): void {
    // Replaces a row with the same number: remove it from its groups, so that it is not reaped with its former worker.
    const before = this.packets.get(row.no);
    if (before !== undefined) {
      for (const name of groupsOf(before)) this.#leave(name, row.no);
      this.censuses.add(before, -1);
    }
    this.censuses.add(row, 1);
    // Frozen, because callers get these objects, not copies.
    this.packets.set(row.no, Object.freeze(row));
    for (const group of groupsOf(row)) this.#group(group).set(row.no, row);
    if (row.lane !== null && row.place !== null) this.#lastPlaces.set(laneOf(row, row.lane), row.place);
    if (mayComeDue(row)) this.#waits(row);
  }

  change({ no }: PacketRow, to: Partial<PacketRow>): void {
    const before = this.packets.get(no);
    if (before === undefined) return;
    const after = Object.freeze({ ...before, ...to });
    this.packets.set(no, after);
    this.censuses.add(before, -1);
    this.censuses.add(after, 1);
    const groups = groupsOf(after);
    for (const name of groupsOf(before)) if (!groups.includes(name)) this.#leave(name, no);
    // A row that stays in a group keeps its position there.
    for (const name of groups) this.#group(name).set(no, after);
    if (after.lane !== null && after.place !== null && after.place !== before.place)
      this.#lastPlaces.set(laneOf(after, after.lane), after.place);
    if (mayComeDue(after) && !(mayComeDue(before) && before.dueAt === after.dueAt)) this.#waits(after);
  }

  remove({ no }: PacketRow): void {
    const row = this.packets.get(no);
    if (row === undefined) return;
    this.packets.delete(no);
    this.censuses.add(row, -1);
    for (const name of groupsOf(row)) this.#leave(name, no);
  }

  due(queue: QueueId, now: number, limit: number): PacketRow[] {
    const heap = this.#due.get(queueOf(queue));
    const found: PacketRow[] = [];
    for (let first = this.#first(heap); first && first.dueAt <= now && found.length < limit; first = this.#first(heap)) {
      // A packet that was released may be in the heap twice.
      if (found.at(-1)?.no !== first.no) found.push(first);
      heap?.pop();
    }
    // Put them back: they stay due until they are changed.
    for (const { dueAt, no } of found) heap?.push(dueAt, no);
    return found;
  }

  nextDue(queue: QueueId): number | null {
    return this.#first(this.#due.get(queueOf(queue)))?.dueAt ?? null;
  }

  ownedBy(worker: number): PacketRow[] {
    return this.#in(worker);
  }

  lastPlace(queue: QueueId, lane: string): number | null {
    return this.#lastPlaces.get(laneOf(queue, lane)) ?? null;
  }

  head(queue: QueueId, lane: string): PacketRow | undefined {
    return this.#groups.get(laneOf(queue, lane))?.values().next().value;
  }

  heldBy(key: RecordId, limit: number): PacketRow[] {
    return this.#in(`key ${rowOf(key)}`)
      .sort(byAge)
      .slice(0, limit);
  }

  parts(execution: number, node?: string): PacketRow[] {
    return this.#in(`parts ${execution}`)
      .filter(({ part }) => node === undefined || part?.node === node)
      .sort(byAge);
  }

  census(execution: number): Census {
    return this.censuses.of(execution);
  }

  record(id: RecordId): LedgerRecord | undefined {
    return this.#records.get(id);
  }

  putRecord(next: LedgerRecord, past: AttemptEntry | undefined): void {
    this.#records.put(next, past);
  }

  execution(no: number): ExecutionRow | undefined {
    return this.executions.get(no);
  }

  insertExecution(row: ExecutionRow): void {
    this.executions.set(row.no, Object.freeze(row));
  }

  changeExecution({ no }: ExecutionSums, to: ExecutionChange): void {
    const row = this.executions.get(no);
    if (row !== undefined) this.insertExecution({ ...row, ...to });
  }

  removeKept(execution: number): void {
    for (const row of this.#in(`kept ${execution}`)) this.remove(row);
  }

  note(execution: number, note: ExecutionNote): void {
    if (!this.executions.has(execution)) return;
    const notes = this.notes.get(execution) ?? [];
    this.notes.set(execution, notes);
    if (notes.length < notesMax) notes.push(Object.freeze(note));
  }

  addEntry(entry: EntryToWrite): void {
    if (!this.executions.has(entry.execution)) return;
    const entries = this.entries.get(entry.execution) ?? [];
    this.entries.set(entry.execution, entries);
    if (entries.length > entry.entriesMax) return;
    const { entriesMax, ...written } = entries.length < entry.entriesMax ? entry : fullEntry(entry);
    entries.push(Object.freeze(written));
  }

  flowState(flow: string): FlowState {
    return this.flows.get(flow) ?? "active";
  }

  worker(no: number): number | undefined {
    return this.workers.get(no);
  }

  lapsedWorkers(now: number): number[] {
    return [...this.workers].filter(([, until]) => until <= now).map(([no]) => no);
  }

  nextLapse(except: number): number | null {
    const ends = [...this.workers].filter(([no]) => no !== except).map(([, until]) => until);
    return ends.length === 0 ? null : Math.min(...ends);
  }

  removeWorker(no: number): void {
    this.workers.delete(no);
  }

  /** The first packet of a queue that is not stale. */
  #first(heap: DueHeap | undefined): PacketRow | undefined {
    for (let top = heap?.peek(); top !== undefined; top = heap?.peek()) {
      const row = this.packets.get(top.no);
      if (row !== undefined && row.dueAt === top.at && mayComeDue(row)) return row;
      heap?.pop();
    }
    return undefined;
  }

  /** Adds a packet to its queue's heap. Not a packet that waits for another packet: its entry would never reach the top. */
  #waits(row: PacketRow): void {
    if (row.dueAt === untilWoken) return;
    const queue = queueOf(row);
    const heap = this.#due.get(queue) ?? new DueHeap();
    this.#due.set(queue, heap);
    heap.push(row.dueAt, row.no);
  }

  #leave(name: Group, no: number): void {
    const group = this.#groups.get(name);
    group?.delete(no);
    if (group?.size !== 0) return;
    this.#groups.delete(name);
    this.#lastPlaces.delete(name);
  }

  #group(name: Group): Map<number, PacketRow> {
    const group = this.#groups.get(name) ?? new Map<number, PacketRow>();
    this.#groups.set(name, group);
    return group;
  }

  #in(name: Group): PacketRow[] {
    return [...(this.#groups.get(name)?.values() ?? [])];
  }
}

/** The number of a worker, or the name of another group. */
type Group = string | number;

function groupsOf(row: PacketRow): Group[] {
  const groups: Group[] = [];
  if (row.owner !== null) groups.push(row.owner);
  if (row.lane !== null && row.place !== null) groups.push(laneOf(row, row.lane));
  if (row.hold === "key" && row.key !== null) groups.push(`key ${rowOf(row.key)}`);
  if (row.state === "part") groups.push(`parts ${row.execution}`);
  if (row.state === "kept") groups.push(`kept ${row.execution}`);
  return groups;
}

function mayComeDue({ owner, state }: PacketRow): boolean {
  return owner === null && state !== "dead" && state !== "kept";
}

function queueOf({ flow, queue }: QueueId): string {
  return `${flow}\0${queue}`;
}

function laneOf(queue: QueueId, lane: string): string {
  return `lane ${queueOf(queue)}\0${lane}`;
}

function byAge(a: PacketRow, b: PacketRow): number {
  return a.createdAt - b.createdAt || a.no - b.no;
}
