import { serverNow } from "../ledger/read.js";
import { onlyRow, unnest } from "../parameters/columns.js";
import { changeColumns, changedRun, entryColumns, insertRuns, startColumns } from "./row.js";
import { inSchema, tell } from "./tell.js";

export interface QuickParts {
  readonly starts: boolean;
  readonly holds: boolean;
  readonly changes: boolean;
  /** One operation, bound as plain values. */
  readonly alone: boolean;
  /** What others have to be told of. Left out when there is nothing of the kind: every part of a plan costs. */
  readonly tells: { readonly starts: boolean; readonly releases: boolean; readonly ends: boolean };
}

/**
 * What nearly every flush is made of, in one statement over arrays, durable and atomic by itself:
 *
 *   starts   runs that do not exist yet, with or without a first entry
 *   holds    entries of runs that go on: only the journal is written
 *   changes  entries that change their run too: ends, releases, mail taken in
 *   written  the journal rows of all that
 *
 * The answer is one row: which starts and holds were left out, and which changes were done. What was not done is not
 * necessarily refused; the transaction of its own that it gets next finds out.
 *
 * Whether an operation is done is decided on the statement's snapshot, by probes of primary keys (subqueries, because
 * those can't become joins), and for changes once more on the run's row when its lock has been had. Somebody may
 * commit the same run or the same entry meanwhile. Then the primary key raises an error and nothing at all of the
 * statement is done: sent again, its new snapshot sees what was in the way. ON CONFLICT DO NOTHING would go on
 * instead, and every run and entry had to be joined with what was really inserted, and every run locked before its
 * entry: that was measured at a third more time, for a race that nearly never happens.
 *
 * A hold neither locks nor reads its run: the journal says whether an entry can follow.
 *
 * The rules of core/runs/rules (start.ts, append.ts, fence.ts, then.ts) in one statement; test/runs compares them.
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
    if (parts.tells.starts) answers.push(`(SELECT count(${tell("id")}) FROM starts WHERE exist IS NULL AND owner IS NULL) AS told_starts`);
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
  WHERE r.id = a.id AND r.ended_at IS NULL AND (NOT a.over OR (r.parent IS NULL AND r.hook_rev = 0))
    AND CASE WHEN a.events IS NULL THEN r.epoch = a.epoch AND r.owner IS NOT NULL ELSE ${isNext} END
  RETURNING a.ord, a.id, a.seq, a.epoch, a.events, a.over, now, r.wake_at <= now AS awake)`);
    entries.push("SELECT id, seq, epoch, now, events, nullif(over, false) FROM changes WHERE events IS NOT NULL");
    answers.push("(SELECT string_agg(ord::text, ',') FROM changes) AS changed");
    const told = [...(parts.tells.releases ? ["awake"] : []), ...(parts.tells.ends ? ["over"] : [])].join(" OR ");
    if (told !== "") answers.push(`(SELECT count(${tell("id")}) FROM changes WHERE ${told}) AS told_changes`);
  }
  withs.push(`written AS (INSERT INTO $schema.journal (run, seq, epoch, at, events, closing) ${entries.join(" UNION ALL ")})`);
  return inSchema(`WITH ${withs.join(",\n")}\nSELECT ${answers.join(", ")} FROM clock`, schema);
}

const lastEntry = "FROM $schema.journal j WHERE j.run = a.id ORDER BY j.seq DESC LIMIT 1";

/**
 * The entry of `a` comes right after the last one, or is the first. Epochs do not go back: of several entries that a
 * late owner had under way the first is refused, and the second would else fit just behind its successor's entry.
 */
const isNext = `coalesce((SELECT j.seq = a.seq - 1 AND j.epoch <= a.epoch ${lastEntry}), a.seq = 1)`;

/** The same, in a run that goes on. Only before its first entry does one have to look at the run itself. */
const canFollow = `CASE WHEN a.seq = 1 THEN ${isNext} AND (SELECT r.ended_at IS NULL FROM $schema.runs r WHERE r.id = a.id)
    ELSE (SELECT j.seq = a.seq - 1 AND j.epoch <= a.epoch AND j.closing IS NULL ${lastEntry}) END`;

const insertHold = `INSERT INTO $schema.journal (run, seq, epoch, at, events)
SELECT a.id, a.seq, a.epoch, ${serverNow}, a.events FROM ${onlyRow(entryColumns, 0)} WHERE ${canFollow}`;

/** A hold by itself, which is what a run without company commits. No row when it does not fit. */
const onlyHold = `${insertHold} RETURNING at AS now`;

/** The same in a user's transaction, which an error would end: no row either when another process takes the place meanwhile. */
export const holdWithin = `${insertHold} ON CONFLICT DO NOTHING RETURNING json_build_object('now', at)::text AS answer`;
