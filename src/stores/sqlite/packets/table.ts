import type { AttemptEntry, LedgerRecord, RecordId } from "../../../core/ledger/record.js";
import type { EntryToWrite } from "../../../core/packets/delivery-entry.js";
import type { ExecutionNote, FlowState } from "../../../core/packets/packet.js";
import { untilWoken } from "../../../core/packets/rules/lane.js";
import type {
  Census,
  ExecutionChange,
  ExecutionRow,
  ExecutionSums,
  PacketRow,
  PacketTable,
  QueueId,
} from "../../../core/packets/rules/table.js";
import { CensusBook, reachIn } from "../../shared/census-book.js";
import type { Prepared } from "../connection/prepared.js";
import type { RecordStatements } from "../ledger/record-statements.js";
import { storeNow, text } from "../runs/row.js";
import { canBeBundled } from "./bundles/bundle.js";
import type { BundleCache } from "./bundles/bundle-cache.js";
import { BundleTransaction } from "./bundles/bundle-transaction.js";
import { insertEntry } from "./deliveries.js";
import { Executions } from "./executions.js";
import { QueueNumbers } from "./queues.js";
import type { Remembered } from "./remembered.js";
import { changedColumns, insertRow, selectedPacket, toPacketRow } from "./row.js";

const from = `SELECT ${selectedPacket} FROM onceflow_packets WHERE`;
/** The conditions of the partial indexes, word for word: otherwise SQLite would not use the indexes. */
const live = "state IN ('due', 'held', 'part')";
const stays = "state IN ('part', 'kept', 'dead')";
const inLane = "queue = ? AND lane = ? AND place IS NOT NULL";

const selectPacket = `${from} no = ?`;
const selectSame = "SELECT 1 FROM onceflow_packets WHERE no = ? AND owner = ? AND attempt = ? AND created_at = ?";
const removePacket = "DELETE FROM onceflow_packets WHERE no = ?";
const removeOwned = "DELETE FROM onceflow_packets WHERE no = ? AND owner = ? AND attempt = ? AND created_at = ?";
const selectDue = `${from} owner IS NULL AND queue = ? AND due_at <= ? AND ${live} ORDER BY due_at, no LIMIT ?`;
const selectNextDue = `SELECT min(due_at) AS at FROM onceflow_packets WHERE owner IS NULL AND queue = ? AND ${live}`;
const selectOwned = `${from} owner = ? AND ${live}`;
const selectLast = `SELECT max(place) AS place FROM onceflow_packets WHERE ${inLane}`;
const selectHead = `${from} ${inLane} ORDER BY place LIMIT 1`;
const selectHeld = `${from} key_scope = ? AND key = ? AND hold = 'key' ORDER BY created_at, no`;
/** The LIMIT is a literal: SQLite recompiles a statement with a bound LIMIT for every value, which costs more than running it. */
const selectFirstHeld = `${selectHeld} LIMIT 1`;
const selectParts = `${from} execution = ? AND state = 'part' AND ${stays} ORDER BY created_at, no`;
const selectCensus = `SELECT state, reach, count(*) AS count FROM onceflow_packets
  WHERE execution = ? AND reach IS NOT NULL GROUP BY state, reach`;
const removeKept = `DELETE FROM onceflow_packets WHERE execution = ? AND state = 'kept' AND ${stays}`;
const selectFlow = "SELECT state FROM onceflow_flows WHERE flow = ?";
const selectWorker = "SELECT lease_until AS until FROM onceflow_workers WHERE no = ?";
const selectLapsed = "SELECT no FROM onceflow_workers WHERE lease_until <= ?";
const selectNextLapse = "SELECT min(lease_until) AS at FROM onceflow_workers WHERE no <> ?";
const removeWorker = "DELETE FROM onceflow_workers WHERE no = ?";

/** What this process caches from one transaction to the next. */
export interface PacketHints {
  /**
   * Rows that its workers own, as they were claimed. A row that still has its owner, attempt and creation time is unchanged. The time
   * differs if a send is repeated after its execution was purged: it inserts the same packet again.
   */
  readonly owned: Remembered<PacketRow>;
  /** The records of these packets' keys, as the packets began them. */
  readonly begun: Remembered<LedgerRecord>;
  readonly bundles: BundleCache;
}

/**
 * The packets that one transaction reads and changes; created for one transaction only. A transaction that writes must
 * call `finish` before COMMIT. `hints` are needed to claim or settle packets; without them bundles are not read, and
 * every new packet is a row.
 */
export class SqlitePacketTable implements PacketTable {
  readonly #sql: Prepared;
  readonly #records: RecordStatements;
  readonly #queues: QueueNumbers;
  readonly #owned: Remembered<PacketRow> | undefined;
  readonly #begun: Remembered<LedgerRecord> | undefined;
  readonly #bundles: BundleTransaction | undefined;
  readonly #executions: Executions;
  readonly #flows = new Map<string, FlowState>();
  readonly #workers = new Map<number, number | undefined>();
  #now: number | undefined;
  /** An execution that is known to have neither parts nor kept packets. Reset by every insert and change. */
  #withoutParts: number | undefined;

  constructor(sql: Prepared, records: RecordStatements, queues = new QueueNumbers(sql), hints?: PacketHints) {
    this.#sql = sql;
    this.#records = records;
    this.#queues = queues;
    this.#owned = hints?.owned;
    this.#begun = hints?.begun;
    this.#bundles = hints && new BundleTransaction(sql, queues, hints.owned, hints.bundles);
    this.#executions = new Executions(sql);
  }

  finish(): void {
    this.#executions.finish();
    this.#bundles?.finish();
  }

  now(): number {
    this.#now ??= storeNow(this.#sql);
    return this.#now;
  }

  packet(no: number): PacketRow | undefined {
    const bundled = this.#bundles?.cached(no);
    if (bundled !== undefined) return bundled;
    const known = this.#owned?.get(no);
    if (known !== undefined && this.#sql(selectSame).get(no, known.owner, known.attempt, known.createdAt) !== undefined) return known;
    return this.#row(this.#sql(selectPacket).get(no)) ?? this.#bundles?.find(no);
  }

  insert(row: PacketRow): void {
    const queue = this.#queues.give(row);
    this.#withoutParts = undefined;
    if (this.#bundles !== undefined && canBeBundled(row)) this.#bundles.add(row, queue);
    else this.#insertRow(row, queue);
  }

  change(row: PacketRow, to: Partial<PacketRow>): void {
    this.#withoutParts = undefined;
    if (this.#leavesBundle(row)) this.#insertRow(row, this.#queues.give(row));
    const [names, values] = changedColumns(row, to);
    this.#sql(`UPDATE onceflow_packets SET ${names.map((name) => `${name} = ?`).join(", ")} WHERE no = ?`).run(...values, row.no);
    this.#remember({ ...row, ...to });
  }

  remove(row: PacketRow): void {
    if (this.#leavesBundle(row)) return;
    this.#sql(removePacket).run(row.no);
    this.#owned?.delete(row.no);
  }

  take(no: number, worker: number, attempt: number): PacketRow | undefined {
    const bundled = this.#bundles?.take(no, worker, attempt);
    if (bundled !== undefined) return bundled;
    const known = this.#owned?.get(no);
    if (known?.owner !== worker || known.attempt !== attempt) return undefined;
    if (Number(this.#sql(removeOwned).run(no, worker, attempt, known.createdAt).changes) === 0) return undefined;
    this.#owned?.delete(no);
    return known;
  }

  due(queue: QueueId, now: number, limit: number): PacketRow[] {
    const no = this.#queues.find(queue);
    return no === undefined ? [] : this.#rows(this.#sql(selectDue).all(no, now, limit));
  }

  nextDue(queue: QueueId): number | null {
    const no = this.#queues.find(queue);
    if (no === undefined) return null;
    const { at } = this.#sql(selectNextDue).get(no) as { at: number | null };
    return at === untilWoken ? null : at;
  }

  ownedBy(worker: number): PacketRow[] {
    const rows = this.#rows(this.#sql(selectOwned).all(worker));
    return this.#bundles === undefined ? rows : [...rows, ...this.#bundles.ownedBy(worker)];
  }

  lastPlace(queue: QueueId, lane: string): number | null {
    const no = this.#queues.find(queue);
    return no === undefined ? null : (this.#sql(selectLast).get(no, text(lane)) as { place: number | null }).place;
  }

  head(queue: QueueId, lane: string): PacketRow | undefined {
    const no = this.#queues.find(queue);
    return no === undefined ? undefined : this.#row(this.#sql(selectHead).get(no, text(lane)));
  }

  heldBy({ scope, key }: RecordId, limit: number): PacketRow[] {
    return this.#rows(this.#sql(limit === 1 ? selectFirstHeld : selectHeld).all(scope, key)).slice(0, limit);
  }

  parts(execution: number, node?: string): PacketRow[] {
    if (this.#withoutParts === execution) return [];
    const rows = this.#rows(this.#sql(selectParts).all(execution));
    return node === undefined ? rows : rows.filter(({ part }) => part?.node === node);
  }

  census(execution: number): Census {
    const book = new CensusBook();
    const groups = this.#sql(selectCensus).all(execution) as { state: PacketRow["state"]; reach: string; count: number }[];
    for (const { state, reach, count } of groups) book.add({ execution, state, reach: reachIn(reach) }, count);
    return book.of(execution);
  }

  record(id: RecordId): LedgerRecord | undefined {
    return this.#records.read(id);
  }

  putRecord(next: LedgerRecord, past: AttemptEntry | undefined): void {
    this.#records.put(next, past);
  }

  begun(no: number, record: LedgerRecord): void {
    this.#begun?.set(no, record);
  }

  settleBegun(no: number, settled: (record: LedgerRecord) => LedgerRecord | undefined): boolean {
    const record = this.#begun?.get(no);
    if (record === undefined) return false;
    this.#begun?.delete(no);
    const next = settled(record);
    return next !== undefined && this.#records.replace(record, next);
  }

  execution(no: number): ExecutionSums | undefined {
    const found = this.#executions.sums(no);
    if (found?.stays === false) this.#withoutParts = no;
    return found;
  }

  insertExecution(row: ExecutionRow): void {
    this.#executions.insert(row);
  }

  changeExecution(row: ExecutionSums, to: ExecutionChange): void {
    this.#executions.change(row, to);
  }

  removeKept(execution: number): void {
    if (this.#withoutParts !== execution) this.#sql(removeKept).run(execution);
  }

  note(execution: number, note: ExecutionNote): void {
    this.#executions.note(execution, note);
  }

  addEntry(entry: EntryToWrite): void {
    insertEntry(this.#sql, entry);
  }

  flowState(flow: string): FlowState {
    const known = this.#flows.get(flow);
    if (known !== undefined) return known;
    const { state } = (this.#sql(selectFlow).get(text(flow)) as { state: FlowState } | undefined) ?? { state: "active" };
    this.#flows.set(flow, state);
    return state;
  }

  worker(no: number): number | undefined {
    if (!this.#workers.has(no)) this.#workers.set(no, (this.#sql(selectWorker).get(no) as { until: number } | undefined)?.until);
    return this.#workers.get(no);
  }

  lapsedWorkers(now: number): number[] {
    return (this.#sql(selectLapsed).all(now) as { no: number }[]).map(({ no }) => no);
  }

  nextLapse(except: number): number | null {
    return (this.#sql(selectNextLapse).get(except) as { at: number | null }).at;
  }

  removeWorker(no: number): void {
    this.#sql(removeWorker).run(no);
    this.#workers.set(no, undefined);
  }

  #insertRow(row: PacketRow, queue: number): void {
    insertRow(this.#sql, row, queue);
    this.#remember(row);
  }

  #remember(row: PacketRow): void {
    if (row.owner === null) this.#owned?.delete(row.no);
    else this.#owned?.set(row.no, row);
  }

  /** Removes a packet from its bundle. Returns false if it is not in one; a packet without an owner never is. */
  #leavesBundle({ no, owner }: PacketRow): boolean {
    return owner !== null && this.#bundles?.remove(no) === true;
  }

  #row(found: unknown): PacketRow | undefined {
    return found === undefined ? undefined : toPacketRow(found, this.#queues.name((found as { queue: number }).queue));
  }

  #rows(found: readonly unknown[]): PacketRow[] {
    return found.map((each) => this.#row(each) as PacketRow);
  }
}
