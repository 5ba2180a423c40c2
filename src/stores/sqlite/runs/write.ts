import type { Append, Entry, RunAnswer, RunOperation, StartRun } from "../../../core/runs/operation.js";
import type { Prepared } from "../connection/prepared.js";
import { putChunks, voidChunks, writeChunks } from "./chunks.js";
import { changeHooks, conflictsOf } from "./hooks.js";
import { appendLate } from "./late.js";
import { sendMail } from "./mail.js";
import type { RunNumbers } from "./numbers.js";
import { inputLengthMax, type RunRow, selectedRun, text, toRun } from "./row.js";
import { writeThen } from "./then.js";

const startSql = (state: string) => `INSERT INTO onceflow_runs
  (status, epoch, mail, consumed, id, workflow, fingerprint, parent, creator, retention_ms, input, owner, wake_at, created_at, started_at)
  VALUES (${state}, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`;
const startPending = startSql("'pending', 0");
const startOwned = startSql("'running', 1");
const selectExisting = `SELECT r.no, ${selectedRun} FROM onceflow_runs r WHERE r.id = ?`;

const insertEntry = "INSERT INTO onceflow_journal (run, seq, epoch, at, events) VALUES (?, ?, ?, ?, ?)";
/**
 * The fence: refused when the entry exists, when its predecessor does not or is of a later epoch (what a late owner had
 * queued would else fit just behind its successor's first entry), and when the run has ended. One scalar value
 * that is null otherwise, because INSERT … SELECT from the table it inserts into would first copy what it selects.
 */
const fencedSql = (also: string) => `INSERT OR IGNORE INTO onceflow_journal (run, seq, epoch, at, events) VALUES
  ((SELECT r.no FROM onceflow_runs r WHERE r.no = ? AND r.id = ? AND r.ended_at IS NULL ${also}), ?, ?, ?, ?)`;
const fencedFirst = fencedSql("");
const fencedNext = fencedSql("AND EXISTS (SELECT 1 FROM onceflow_journal p WHERE p.run = r.no AND p.seq = ? AND p.epoch <= ?)");

const selectNumber = "SELECT no FROM onceflow_runs WHERE id = ?";
const selectEpoch = "SELECT epoch FROM onceflow_journal WHERE run = ? AND seq = ?";
const selectHeld = "SELECT no FROM onceflow_runs WHERE id = ? AND epoch = ? AND owner IS NOT NULL AND ended_at IS NULL";

/**
 * The verbs, each for one run, inside a write transaction that the caller holds. A statement per row: measured against
 * one statement over a JSON text of all rows it is as fast or faster, and every operation has its own answer.
 *
 * Values are bound by plain `?`, which the handle of any driver takes: an append may ride somebody's transaction.
 */
export class RunWriter {
  readonly #sql: Prepared;
  readonly #numbers: RunNumbers;
  readonly #onMail: (run: string) => void;

  /** `onMail` hears of parents that got mail by the end of a child, before it is committed. */
  constructor(sql: Prepared, numbers: RunNumbers, onMail: (run: string) => void = () => {}) {
    this.#sql = sql;
    this.#numbers = numbers;
    this.#onMail = onMail;
  }

  apply(operation: RunOperation, now: number): RunAnswer {
    if (operation.verb === "append") return this.append(operation, now);
    if (operation.verb === "appendLate") return appendLate(this.#sql, operation, now);
    if (operation.verb === "write") return writeChunks(this.#sql, operation);
    return operation.verb === "start" ? this.#start(operation, now) : sendMail(this.#sql, operation, now);
  }

  append({ id, epoch, seq, entry }: Append, now: number): RunAnswer {
    if (entry.events === null) {
      const held = this.#sql(selectHeld).get(text(id), epoch) as { no: number } | undefined;
      return held === undefined ? { kind: "overtaken" } : this.#appended(held.no, id, entry, now);
    }
    const place = { id, epoch, seq, events: text(entry.events) };
    const hint = this.#numbers.get(id);
    if (hint !== undefined && this.#insertFenced(hint, place, now)) return this.#appended(hint, id, entry, now);
    const no = (this.#sql(selectNumber).get(text(id)) as { no: number } | undefined)?.no;
    if (no === undefined) return { kind: "overtaken" };
    this.#numbers.set(id, no);
    if (this.#insertFenced(no, place, now)) return this.#appended(no, id, entry, now);
    const there = this.#sql(selectEpoch).get(no, seq) as { epoch: number } | undefined;
    if (there?.epoch !== epoch) return { kind: "overtaken" };
    // What stands there is our own: the reply to it was lost, and all that goes with it was done then.
    return { kind: "appended", now, conflicts: conflictsOf(this.#sql, no, entry) };
  }

  #insertFenced(no: number, { id, epoch, seq, events }: { id: string; epoch: number; seq: number; events: string }, now: number): boolean {
    const { changes } =
      seq === 1
        ? this.#sql(fencedFirst).run(no, id, seq, epoch, now, events)
        : this.#sql(fencedNext).run(no, id, seq - 1, epoch, seq, epoch, now, events);
    return Number(changes) === 1;
  }

  #appended(no: number, id: string, entry: Entry, now: number): RunAnswer {
    this.#follow(no, id, entry, now);
    return { kind: "appended", now, conflicts: conflictsOf(this.#sql, no, entry) };
  }

  #follow(no: number, id: string, entry: Entry, now: number): void {
    changeHooks(this.#sql, no, entry.hooks, now);
    for (const child of entry.children) this.#start(child, now);
    if (entry.voids) voidChunks(this.#sql, no, entry.voids);
    if (entry.chunks) putChunks(this.#sql, no, entry.chunks);
    const parent = writeThen(this.#sql, { no, id }, entry, now);
    if (parent !== undefined) this.#onMail(parent);
    if (entry.then.kind !== "hold") this.#numbers.delete(id);
  }

  #start(start: StartRun, now: number): RunAnswer {
    const { id, workflow, fingerprint, parent, creator, retentionMs, first } = start;
    const input = text(start.input);
    const short = input.length <= inputLengthMax;
    const inserted = this.#sql(first === null ? startPending : startOwned).run(
      text(id),
      text(workflow),
      text(fingerprint),
      text(parent),
      text(creator),
      retentionMs,
      short ? input : null,
      text(first?.owner ?? null),
      now + (first?.leaseMs ?? 0),
      now,
      first === null ? null : now,
    );
    if (Number(inserted.changes) === 0) return this.#existing(start, now);
    const no = Number(inserted.lastInsertRowid);
    if (!short) this.#sql(insertEntry).run(no, 0, 0, now, input);
    if (start.chunks) putChunks(this.#sql, no, start.chunks);
    if (first === null) return { kind: "created", now, conflicts: [] };
    this.#numbers.set(id, no);
    if (first.entry.events !== null) this.#sql(insertEntry).run(no, 1, 1, now, text(first.entry.events));
    this.#follow(no, id, first.entry, now);
    return { kind: "created", now, conflicts: conflictsOf(this.#sql, no, first.entry) };
  }

  #existing({ id, creator, first }: StartRun, now: number): RunAnswer {
    const existing = this.#sql(selectExisting).get(id) as RunRow & { no: number };
    if (existing.creator !== creator) return { kind: "exists", run: toRun(existing) };
    return { kind: "created", now, conflicts: conflictsOf(this.#sql, existing.no, first?.entry) };
  }
}
