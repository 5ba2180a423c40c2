import type { LogEntry } from "../../../core/runs/log.js";
import type { RunOperation } from "../../../core/runs/operation.js";
import { childKey } from "../../../core/runs/rules/then.js";
import type { RunRecord } from "../../../core/runs/run.js";
import type { LoadedRuns } from "../../shared/loaded-run-table.js";
import { RunWishes } from "../../shared/run-wishes.js";
import { serverNow } from "../ledger/read.js";
import { arrayLiteral } from "../parameters/columns.js";
import { ask, type RunConnection } from "./ask.js";
import { selectedLogEntry, selectedRun } from "./row.js";
import { storedKey } from "./send.js";

/** The runs that an operation may touch, and the time when they were read. */
export interface HeldRuns {
  readonly wishes: RunWishes;
  readonly now: number;
  readonly runs: readonly RunRecord[];
}

/**
 * Reads the runs of an operation, and the parent of a run that ends. With "lock", rows are locked in order of their id, as renewals
 * do, so that two transactions do not deadlock. The time is taken after all locks were granted.
 */
function runsStatement(mode: "lock" | "read"): string {
  return `WITH held AS MATERIALIZED (
    SELECT * FROM $schema.runs WHERE id = ANY ($1::text[] || ARRAY(SELECT parent FROM $schema.runs WHERE id = $2::text AND parent IS NOT NULL))
    ORDER BY id ${mode === "lock" ? "FOR UPDATE" : ""})
  SELECT json_build_object('runs', runs, 'now', ${serverNow})::text AS answer
  FROM (SELECT json_agg(x) AS runs FROM (SELECT ${selectedRun} FROM held) x) h`;
}

const statements = {
  lock: { name: "lock", text: runsStatement("lock") },
  read: { name: "read", text: runsStatement("read") },
} as const;

export async function holdRuns(connection: RunConnection, operation: RunOperation, mode: "lock" | "read"): Promise<HeldRuns> {
  const wishes = new RunWishes(operation);
  const values = [arrayLiteral([...wishes.runs]), wishes.ends];
  const { runs, now = 0 } = (await ask<{ runs: RunRecord[] | null; now: number }>(connection, statements[mode], values)) ?? {};
  const parent = runs?.find(({ id }) => id === wishes.ends)?.parent ?? null;
  if (wishes.ends !== null && parent !== null) {
    wishes.runs.add(parent);
    wishes.mail.push({ run: parent, key: childKey(wishes.ends) });
  }
  return { wishes, now, runs: runs ?? [] };
}

/**
 * Reads the other rows that an operation may touch. It must begin after the statement that locks the runs, which sees the rows as they were
 * before it waited. A journal row without events closes a run that ended without an entry; it does not count as an entry.
 */
const partsStatement = `SELECT json_build_object(
  'entries', (SELECT json_agg(e) FROM unnest($1::text[], $2::int[]) AS a(run, seq), LATERAL (
    (SELECT j.run, j.seq, j.epoch, CASE WHEN $3::boolean THEN j.events END AS events FROM $schema.journal j
      WHERE j.run = a.run AND j.events IS NOT NULL ORDER BY j.seq DESC LIMIT 1)
    UNION
    SELECT j.run, j.seq, j.epoch, CASE WHEN $3::boolean THEN j.events END FROM $schema.journal j
      WHERE j.run = a.run AND j.seq = a.seq AND j.events IS NOT NULL) e),
  'hooks', (SELECT json_agg(json_build_object('token', h.token, 'run', h.run, 'about', h.about)) FROM $schema.hooks h WHERE h.token = ANY ($4::text[])),
  'mail', (SELECT json_agg(json_build_object('ord', a.ord, 'seq', m.seq)) FROM unnest($5::text[], $6::text[]) WITH ORDINALITY AS a(run, key, ord)
    JOIN $schema.mail m ON m.run = a.run AND m.key = a.key),
  'logged', (SELECT row_to_json(l) FROM (SELECT ${selectedLogEntry} FROM $schema.operator_log WHERE id = $11::text) l),
  'chunks', (SELECT json_agg(json_build_object('run', c.run, 'stream', c.stream, 'writer', c.writer, 'n', c.n, 'attempt', c.attempt))
    FROM unnest($7::text[], $8::text[], $9::text[], $10::int[]) AS a(run, stream, writer, n)
    JOIN $schema.chunks c ON c.run = a.run AND c.writer = a.writer AND c.stream = a.stream AND c.n = a.n),
  'streams', (SELECT json_agg(json_build_object('run', a.run, 'stream', a.stream, 'ended', false, 'next', 1 + coalesce(
      (SELECT c.place FROM $schema.chunks c WHERE c.run = a.run AND c.stream = a.stream ORDER BY c.place DESC LIMIT 1), -1)))
    FROM (SELECT DISTINCT run, stream FROM unnest($7::text[], $8::text[]) AS x(run, stream)) a))::text AS answer`;

type Parts = {
  readonly [K in "entries" | "hooks" | "chunks" | "streams"]: LoadedRuns[K] | null;
} & {
  readonly mail: readonly { readonly ord: number; readonly seq: number }[] | null;
  readonly logged: LogEntry | null;
};

export async function loadTouched(connection: RunConnection, { verb }: RunOperation, { wishes, now, runs }: HeldRuns): Promise<LoadedRuns> {
  const { entries, tokens, mail, chunks, action, runs: asked } = wishes;
  const there = new Set(runs.map(({ id }) => id));
  const known = entries.filter(({ run }) => there.has(run));
  const letters = mail.filter(({ run }) => there.has(run));
  const pieces = chunks.filter(({ run }) => there.has(run));
  const none = { now, asked, runs, entries: [], hooks: [], mail: [], chunks: [], streams: [] };
  if (known.length + tokens.size + letters.length + pieces.length === 0 && action === null) return none;
  const values = [
    arrayLiteral(known.map(({ run }) => run)),
    arrayLiteral(known.map(({ seq }) => seq)),
    verb === "appendLate",
    arrayLiteral([...tokens]),
    arrayLiteral(letters.map(({ run }) => run)),
    arrayLiteral(letters.map(({ key }) => storedKey(key))),
    arrayLiteral(pieces.map(({ run }) => run)),
    arrayLiteral(pieces.map(({ chunk }) => chunk.stream)),
    arrayLiteral(pieces.map(({ chunk }) => chunk.writer)),
    arrayLiteral(pieces.map(({ chunk }) => chunk.n)),
    action,
  ];
  const parts = await ask<Parts>(connection, { name: "touched", text: partsStatement }, values);
  return {
    ...none,
    entries: parts?.entries ?? [],
    hooks: parts?.hooks ?? [],
    mail: (parts?.mail ?? []).flatMap(({ ord, seq }) => {
      const letter = letters[ord - 1];
      return letter === undefined ? [] : [{ ...letter, seq }];
    }),
    logged: parts?.logged ?? undefined,
    chunks: parts?.chunks ?? [],
    streams: parts?.streams ?? [],
  };
}
