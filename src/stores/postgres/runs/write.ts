import type { RunOperation } from "../../../core/runs/operation.js";
import type { LoadedRunTable, RunChanges } from "../../shared/loaded-run-table.js";
import { binaryColumns } from "../parameters/binary-array.js";
import { arrayLiteral, unnest } from "../parameters/columns.js";
import { ask, type RunConnection } from "./ask.js";
import { entriesPart, notificationsOf, otherParts } from "./change-parts.js";

/** Another process changed a row after it was read: the transaction must be rolled back. */
export class Overtaken extends Error {}

interface Done {
  readonly written: number;
  readonly created: readonly string[] | null;
  readonly hooked: readonly string[] | null;
  /** Numbers of the entries in the operator log. */
  readonly logged: readonly number[] | null;
}

export interface Written {
  /** Tokens that other runs have taken since they were read. */
  readonly lost: ReadonlySet<string>;
  /** Number of the entry in the operator log, if there is one. */
  readonly logNo: number | undefined;
}

/**
 * Writes all changes in one statement: first the journal entries, which are the fence, and only if all of them could be written, a
 * data-modifying part for each kind of change. An append of a late owner does not lock its run, and may use the entry number after
 * the journal was read. "refused": nothing was written, and the rules have to decide again.
 *
 * Throws `Overtaken` if another process has started a run since it was read, and more than its row depends on it: the transaction must be
 * rolled back.
 */
export async function writeChanges(
  connection: RunConnection,
  table: LoadedRunTable,
  operation: RunOperation,
): Promise<Written | "refused"> {
  const changes = table.changes();
  const written = entriesPart(table, changes);
  const rest = otherParts(table, changes).filter(({ rows }) => rows.length > 0);
  const notified = notificationsOf(table, changes);
  if (written.rows.length + rest.length + notified.length === 0) return { lost: new Set(), logNo: undefined };
  const parts = [written, ...rest];
  let before = 1;
  const withs: string[] = [];
  for (const { name, columns, write } of parts) {
    const fenced = name === written.name ? "" : ", passed WHERE ok";
    withs.push(
      `${name}_rows AS MATERIALIZED (SELECT a.* FROM ${unnest(columns, before)}${fenced})`,
      `${name} AS (${write(`${name}_rows a`)})`,
    );
    if (name === written.name) withs.push("passed AS MATERIALIZED (SELECT count(*) = $1::int AS ok FROM written)");
    before += columns.length;
  }
  const has = (name: string, answer: string) => (rest.some((part) => part.name === name) ? answer : "NULL");
  const text = `WITH ${withs.join(",\n")}
SELECT json_build_object('written', (SELECT count(*) FROM written), 'created', ${has("created", "(SELECT json_agg(id) FROM created)")},
  'hooked', ${has("hooked", "(SELECT json_agg(token) FROM hooked)")},
  'logged', ${has("logged", "(SELECT json_agg(no) FROM logged)")},
  'notified', (SELECT count(pg_notify('$channel', t.payload)) FROM unnest($${before + 1}::text[]) AS t(payload), passed WHERE ok))::text AS answer`;
  const values = [
    written.rows.length,
    ...parts.flatMap(({ rows, columns }): (Buffer | string)[] =>
      rows.length === 0 ? columns.map(() => "{}") : binaryColumns(rows, columns),
    ),
    arrayLiteral(notified),
  ];
  const done = await ask<Done>(connection, { name: `write-${rest.map(({ name }) => shortName(name)).join("-")}`, text }, values);
  if (done?.written !== written.rows.length) return "refused";
  const created = new Set(done.created);
  if (changes.inserted.some(({ id }) => !created.has(id) && !isOnlyRow(operation, changes, id)))
    throw new Overtaken("another process started the run");
  const hooked = new Set(done.hooked);
  const lost = new Set(changes.hooksInserted.map(({ token }) => token).filter((token) => !hooked.has(token)));
  return { lost, logNo: done.logged?.[0] };
}

/** Whether only the row of a new run is written. If another process has started that child meanwhile, its row serves as well. */
function isOnlyRow(operation: RunOperation, { changed, entries, mail, hooksInserted, chunksInserted }: RunChanges, id: string): boolean {
  if ((operation.verb === "start" || operation.verb === "act") && operation.id === id) return false;
  if (changed.some((one) => one.id === id)) return false;
  return [...entries, ...mail, ...hooksInserted, ...chunksInserted].every(({ run }) => run !== id);
}

/** PostgreSQL cuts the name of a statement off after 63 characters, and would take two statements for one. Three letters tell the parts apart. */
function shortName(part: string): string {
  return part.replace("removed_", "r").slice(0, 3);
}
