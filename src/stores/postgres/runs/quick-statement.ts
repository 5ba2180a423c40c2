import { serverNow } from "../ledger/read.js";
import { onlyRow, unnest } from "../parameters/columns.js";
import { inSchema, notify } from "./notify.js";
import { changeColumns, changedRun, entryColumns, insertRuns, startColumns } from "./row.js";

export interface QuickParts {
  readonly starts: boolean;
  readonly holds: boolean;
  readonly changes: boolean;
  /** A single operation, passed as plain values. */
  readonly alone: boolean;
  /** Which changes have to be announced to other processes. Unneeded parts are left out, because every part of a plan costs time. */
  readonly notifies: { readonly starts: boolean; readonly releases: boolean; readonly ends: boolean };
}

/**
 * The common operations of a flush in one statement over arrays, durable and atomic by itself:
 *
 *   starts   runs that do not exist yet, with or without a first entry
 *   holds    entries after which the owner keeps the run: only the journal is written
 *   changes  entries that also change their run: ends, releases, consumed mail
 *   written  the journal rows of all of these
 *
 * The result is one row: which starts and holds were not done, and which changes were done. An operation that was not done is not
 * necessarily refused; it gets its own transaction next, which decides.
 *
 * Whether an operation is done is decided on the statement's snapshot, by lookups of primary keys (as subqueries, which are never
 * planned as joins), and for changes once more on the locked row of the run. If another transaction commits the same run or entry
 * meanwhile, the primary key raises an error and nothing of the statement is done: sent again, its new snapshot sees the conflict.
 * With ON CONFLICT DO NOTHING every run and entry would have to be joined with the rows that were really inserted, and every run
 * locked before its entry: that took a third more time, for a race that nearly never happens.
 *
 * A hold does not lock its run. An end that is committed meanwhile takes the number of its entry.
 *
 * It repeats the rules of core/runs/rules (start.ts, append.ts, fence.ts, then.ts); test/runs compares them.
 */
export function quickStatement(schema: string, parts: QuickParts): string {
  if (parts.alone && parts.holds) return inSchema(onlyHold, schema);
  const source = parts.alone ? onlyRow : unnest;
  const withs = [`clock AS MATERIALIZED (SELECT ${serverNow} AS now)`];
  const entries: string[] = [];
  const answers = ["now"];
  let before = 0;
  if (parts.starts) {
    withs.push(
      `starts AS MATERIALIZED (SELECT a.*, now, (SELECT true FROM $schema.runs r WHERE r.id = a.id) AS exist
  FROM ${source(startColumns, before)}, clock)`,
      `created AS (${insertRuns("starts a WHERE exist IS NULL")})`,
    );
    entries.push("SELECT id, 1, 1, now, events, NULL::boolean FROM starts WHERE exist IS NULL AND events IS NOT NULL");
    answers.push("(SELECT string_agg(ord::text, ',') FROM starts WHERE exist) AS existing");
    if (parts.notifies.starts)
      answers.push(`(SELECT count(${notify("id")}) FROM starts WHERE exist IS NULL AND owner IS NULL) AS notified_starts`);
    before += startColumns.length;
  }
  if (parts.holds) {
    withs.push(`holds AS MATERIALIZED (SELECT a.*, now, ${canFollow} AS fits FROM ${source(entryColumns, before)}, clock)`);
    entries.push("SELECT id, seq, epoch, now, events, NULL::boolean FROM holds WHERE fits");
    answers.push("(SELECT string_agg(ord::text, ',') FROM holds WHERE fits IS NOT TRUE) AS unfit");
    before += entryColumns.length;
  }
  if (parts.changes) {
    withs.push(`changes AS (
  UPDATE $schema.runs r SET ${changedRun}
  FROM ${source(changeColumns, before)}, clock
  WHERE r.id = a.id AND r.creator = a.creator AND r.ended_at IS NULL AND (NOT a.over OR (r.parent IS NULL AND r.hook_rev = 0))
    AND CASE WHEN a.events IS NULL THEN r.epoch = a.epoch AND r.owner IS NOT NULL ELSE ${isNext} END
  RETURNING a.ord, a.id, a.seq, a.epoch, a.events, a.over, now, r.wake_at <= now AS awake)`);
    entries.push("SELECT id, seq, epoch, now, events, nullif(over, false) FROM changes WHERE events IS NOT NULL");
    answers.push("(SELECT string_agg(ord::text, ',') FROM changes) AS changed");
    const notified = [...(parts.notifies.releases ? ["awake"] : []), ...(parts.notifies.ends ? ["over"] : [])].join(" OR ");
    if (notified !== "") answers.push(`(SELECT count(${notify("id")}) FROM changes WHERE ${notified}) AS notified_changes`);
  }
  withs.push(`written AS (INSERT INTO $schema.journal (run, seq, epoch, at, events, closing) ${entries.join(" UNION ALL ")})`);
  return inSchema(`WITH ${withs.join(",\n")}\nSELECT ${answers.join(", ")} FROM clock`, schema);
}

/**
 * Whether the entry of `a` comes right after the last one, or is the first. Epochs must not decrease: of several entries that a
 * late owner has sent, the first is refused, and the second would otherwise fit right after its successor's entry.
 */
const isNext = `coalesce((SELECT j.seq = a.seq - 1 AND j.epoch <= a.epoch
    FROM $schema.journal j WHERE j.run = a.id ORDER BY j.seq DESC LIMIT 1), a.seq = 1)`;

/** The same, and the run has not ended and is not another one with this id. */
const canFollow = `(SELECT r.creator = a.creator AND r.ended_at IS NULL FROM $schema.runs r WHERE r.id = a.id) AND ${isNext}`;

const insertHold = `INSERT INTO $schema.journal (run, seq, epoch, at, events)
SELECT a.id, a.seq, a.epoch, ${serverNow}, a.events FROM ${onlyRow(entryColumns, 0)} WHERE ${canFollow}`;

/** A single hold. Returns no row if it does not fit. */
const onlyHold = `${insertHold} RETURNING at AS now`;

/** The same in a user's transaction, which an error would abort: also returns no row if another process uses the entry number meanwhile. */
export const holdWithin = `${insertHold} ON CONFLICT DO NOTHING RETURNING json_build_object('now', at)::text AS answer`;
