import type { Chunk, Voided } from "../../../core/runs/chunk.js";
import type { LogEntry, NewLogEntry } from "../../../core/runs/log.js";
import type { EntryFence, RunEnd, RunState, RunTable, RunUpdate } from "../../../core/runs/rules/table.js";
import type { HookRecord, JournalEntry, Mail, RunRecord } from "../../../core/runs/run.js";
import type { Prepared } from "../connection/prepared.js";
import { chunkAttempt, hasEndedStream, insertChunk, nextIndex, replaceChunk, voidChunks } from "./chunks.js";
import { insertLog, logged } from "./log.js";
import type { RunNumberHints } from "./number-hints.js";
import { removeParts } from "./purge.js";
import { inputLengthMax, type RunRow, selectedRun, selectedState, storeNow, text, toRun, updateOf } from "./row.js";

const selectState = `SELECT r.no, ${selectedState} FROM onceflow_runs r WHERE r.id = ?`;
const selectRecord = `SELECT ${selectedRun} FROM onceflow_runs r WHERE r.id = ?`;
const selectNumber = "SELECT no FROM onceflow_runs WHERE id = ?";
/** `mail` and `consumed` of a new run are 0. They are literals, because every bound value costs a quarter of a microsecond. */
const insertRun = `INSERT INTO onceflow_runs
  (id, workflow, status, fingerprint, parent, creator, retention_ms, input, owner, epoch, wake_at, created_at, started_at, mail, consumed)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0) ON CONFLICT (id) DO NOTHING`;
/** Few runs have a deadline. */
const setDeadline = "UPDATE onceflow_runs SET deadline_at = ?, stop_at = ? WHERE no = ?";
/** Few runs have these. */
const setLabels = "UPDATE onceflow_runs SET scope = ?, attributes = ? WHERE no = ?";
const removeRun = "DELETE FROM onceflow_runs WHERE no = ?";
/**
 * The end of rules/then.ts in one statement, for runs without parent and hooks, which most are. Reading the run first would double
 * the cost.
 */
const endPlain = `UPDATE onceflow_runs SET owner = NULL, wake_at = NULL, status = ?, output = ?, consumed = coalesce(?, consumed),
  ended_at = ?, unsettled = ?, expires_at = CASE WHEN ? = 0 THEN ? + retention_ms END
  WHERE no = ? AND parent IS NULL AND NOT EXISTS (SELECT 1 FROM onceflow_hooks h WHERE h.run = onceflow_runs.no)`;

/** Few runs fail. */
const endFailed = endPlain.replace("SET ", "SET error_name = ?, error_code = ?, ");

const insertEntry = "INSERT INTO onceflow_journal (run, seq, epoch, at, events) VALUES (?, ?, ?, ?, ?)";
/** Entry 0 is a long input, not an entry. */
const selectEntry = "SELECT epoch, events FROM onceflow_journal WHERE run = ? AND seq = ? AND seq > 0";
const selectLast = "SELECT seq, epoch FROM onceflow_journal WHERE run = ? AND seq > 0 ORDER BY seq DESC LIMIT 1";
/**
 * The fence of rules/fence.ts and the entry in one statement, which is its own transaction: for the most common append. If the
 * fence refuses, the scalar subquery is null, and OR IGNORE skips the row; so it does if the entry number is used. Not INSERT …
 * SELECT, which would first copy what it selects from the same table. The differential test compares it with the rule.
 */
const fencedSql = (also: string) => `INSERT OR IGNORE INTO onceflow_journal (run, seq, epoch, at, events) VALUES
  ((SELECT r.no FROM onceflow_runs r WHERE r.no = ? AND r.id = ? AND r.creator = ? AND r.ended_at IS NULL ${also}), ?, ?, ?, ?)`;
const fencedFirst = fencedSql("");
const fencedNext = fencedSql("AND EXISTS (SELECT 1 FROM onceflow_journal p WHERE p.run = r.no AND p.seq = ? AND p.epoch <= ?)");

const selectMail = "SELECT 1 FROM onceflow_mail WHERE run = ? AND key = ?";
const insertMail = `INSERT INTO onceflow_mail (run, seq, key, kind, about, payload, at) VALUES (?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (run, key) DO NOTHING`;
const selectMailSeq = "SELECT seq FROM onceflow_mail WHERE run = ? AND key = ?";
const withdrawMail = "UPDATE onceflow_mail SET kind = 'withdrawn', payload = NULL, key = ? WHERE run = ? AND seq = ?";

const selectHook = "SELECT r.id AS run, h.about FROM onceflow_hooks h JOIN onceflow_runs r ON r.no = h.run WHERE h.token = ?";
const insertHook = `INSERT INTO onceflow_hooks (token, run, about, metadata, created_at, scope)
  VALUES (?, ?, ?, ?, ?, (SELECT scope FROM onceflow_runs WHERE no = ?)) ON CONFLICT (token) DO NOTHING`;
const removeHook = "DELETE FROM onceflow_hooks WHERE token = ? AND run = ?";
const removeHooks = "DELETE FROM onceflow_hooks WHERE run = ?";

/**
 * The rows of runs, inside a write transaction of the caller. One statement per row: that was measured to be as fast as, or faster
 * than, one statement over a JSON text of all rows, and every operation has its own answer.
 *
 * Values are bound by plain `?`, which every driver supports: an append may run in a user's transaction.
 */
export class SqliteRunTable implements RunTable {
  readonly #sql: Prepared;
  readonly #hints: RunNumberHints;
  /** The numbers of runs that were read since the transaction began: no other process can change them meanwhile. */
  readonly #seen = new Map<string, number>();
  #now = 0;
  #parents: string[] = [];

  constructor(sql: Prepared, hints: RunNumberHints) {
    this.#sql = sql;
    this.#hints = hints;
  }

  /** Call at the beginning of each transaction: discards what was read before. */
  begin(): this {
    this.#now = storeNow(this.#sql);
    this.#seen.clear();
    this.#parents = [];
    return this;
  }

  /** Parents that got mail because a child ended, which are not in the answers. */
  get parents(): readonly string[] {
    return this.#parents;
  }

  now(): number {
    return this.#now;
  }

  run(id: string): RunState | undefined {
    const row = this.#sql(selectState).get(text(id)) as (Omit<RunState, "alone"> & { no: number; alone: 0 | 1 }) | undefined;
    if (row === undefined) return undefined;
    this.#seen.set(id, row.no);
    return { ...row, alone: row.alone === 1 };
  }

  record(id: string): RunRecord | undefined {
    const row = this.#sql(selectRecord).get(text(id)) as RunRow | undefined;
    return row && toRun(row);
  }

  insertRun(run: RunRecord): boolean {
    const input = text(run.input);
    const isLong = input.length > inputLengthMax;
    const inserted = this.#sql(insertRun).run(
      text(run.id),
      text(run.workflow),
      run.status,
      text(run.fingerprint),
      text(run.parent),
      text(run.creator),
      run.retentionMs,
      isLong ? null : input,
      text(run.owner),
      run.epoch,
      run.wakeAt,
      run.createdAt,
      run.startedAt,
    );
    if (Number(inserted.changes) === 0) return false;
    const no = Number(inserted.lastInsertRowid);
    this.#seen.set(run.id, no);
    if (run.owner !== null) this.#hints.set(run.id, no);
    if (isLong) this.#sql(insertEntry).run(no, 0, 0, run.createdAt, input);
    if (run.deadlineAt !== null || run.stopAt !== null) this.#sql(setDeadline).run(run.deadlineAt, run.stopAt, no);
    if (run.scope !== "" || run.attributes !== null) this.#sql(setLabels).run(text(run.scope), text(run.attributes), no);
    return true;
  }

  changeRun(id: string, to: RunUpdate): void {
    const { sets, values } = updateOf(to);
    this.#sql(`UPDATE onceflow_runs SET ${sets} WHERE no = ?`).run(...values, this.#no(id));
    if (to.owner === null) this.#hints.delete(id);
  }

  endPlain(id: string, { status, output, unsettled, consumed, error }: RunEnd): boolean {
    const values = [status, text(output), consumed, this.#now, unsettled, unsettled, this.#now, this.#no(id)];
    const { changes } =
      error === undefined ? this.#sql(endPlain).run(...values) : this.#sql(endFailed).run(text(error.name), text(error.code), ...values);
    if (Number(changes) === 0) return false;
    this.#hints.delete(id);
    return true;
  }

  lastEntry(run: string): EntryFence | undefined {
    return this.#sql(selectLast).get(this.#no(run)) as EntryFence | undefined;
  }

  entry(run: string, seq: number): Pick<JournalEntry, "epoch" | "events"> | undefined {
    return this.#sql(selectEntry).get(this.#no(run), seq) as Pick<JournalEntry, "epoch" | "events"> | undefined;
  }

  insertEntry(run: string, { seq, epoch, at, events }: JournalEntry): void {
    this.#sql(insertEntry).run(this.#no(run), seq, epoch, at, text(events));
  }

  insertFenced({ id: run, creator }: Pick<RunRecord, "id" | "creator">, entry: JournalEntry): boolean {
    const no = this.#hints.get(run) ?? this.#find(run);
    if (no === undefined) return false;
    const { seq, epoch, at } = entry;
    const events = text(entry.events);
    const { changes } =
      seq === 1
        ? this.#sql(fencedFirst).run(no, run, text(creator), seq, epoch, at, events)
        : this.#sql(fencedNext).run(no, run, text(creator), seq - 1, epoch, seq, epoch, at, events);
    if (Number(changes) === 0) return false;
    this.#seen.set(run, no);
    this.#hints.set(run, no);
    return true;
  }

  hasMail(run: string, key: string): boolean {
    return this.#sql(selectMail).get(this.#no(run), keyOf(key)) !== undefined;
  }

  insertMail(run: string, key: string, { seq, kind, about, payload, at }: Mail): boolean {
    const values = [this.#no(run), seq, keyOf(key), kind, text(about), text(payload), at];
    if (Number(this.#sql(insertMail).run(...values).changes) === 0) return false;
    if (kind === "child") this.#parents.push(run);
    return true;
  }

  mailSeq(run: string, key: string): number | undefined {
    return (this.#sql(selectMailSeq).get(this.#no(run), keyOf(key)) as { seq: number } | undefined)?.seq;
  }

  withdrawMail(run: string, seq: number, key: string): void {
    this.#sql(withdrawMail).run(keyOf(key), this.#no(run), seq);
  }

  hook(token: string): Pick<HookRecord, "run" | "about"> | undefined {
    return this.#sql(selectHook).get(text(token)) as Pick<HookRecord, "run" | "about"> | undefined;
  }

  insertHook({ token, run, about, metadata, createdAt }: HookRecord): boolean {
    const no = this.#no(run);
    return Number(this.#sql(insertHook).run(text(token), no, text(about), text(metadata), createdAt, no).changes) === 1;
  }

  removeHook(run: string, token: string): void {
    this.#sql(removeHook).run(text(token), this.#no(run));
  }

  removeHooks(run: string): void {
    this.#sql(removeHooks).run(this.#no(run));
  }

  removeRun(id: string): void {
    const no = this.#no(id);
    this.#sql(removeRun).run(no);
    removeParts(this.#sql, no);
    this.#seen.delete(id);
    this.#hints.delete(id);
  }

  logged(id: string): LogEntry | undefined {
    return logged(this.#sql, id);
  }

  insertLog(entry: NewLogEntry): LogEntry {
    return insertLog(this.#sql, entry, this.#now);
  }

  hasEndedStream(run: string, stream: string): boolean {
    return hasEndedStream(this.#sql, this.#no(run), stream);
  }

  nextIndex(run: string, stream: string): number {
    return nextIndex(this.#sql, this.#no(run), stream);
  }

  insertChunk(run: string, index: number, chunk: Chunk): boolean {
    return insertChunk(this.#sql, this.#no(run), index, chunk);
  }

  chunkAttempt(run: string, chunk: Chunk): number {
    return chunkAttempt(this.#sql, this.#no(run), chunk);
  }

  replaceChunk(run: string, chunk: Chunk): void {
    replaceChunk(this.#sql, this.#no(run), chunk);
  }

  voidChunks(run: string, voided: Voided): void {
    voidChunks(this.#sql, this.#no(run), voided);
  }

  #no(run: string): number {
    return this.#seen.get(run) ?? (this.#find(run) as number);
  }

  #find(run: string): number | undefined {
    const row = this.#sql(selectNumber).get(text(run)) as { no: number } | undefined;
    if (row !== undefined) this.#seen.set(run, row.no);
    return row?.no;
  }
}

/** As JSON, because a key may contain NUL: that of a child's end does. */
function keyOf(key: string): string {
  return JSON.stringify(key);
}
