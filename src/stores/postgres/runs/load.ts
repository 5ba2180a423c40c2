import type { Claimed } from "../../../core/runs/operation.js";
import type { HookRecord, JournalEntry, Mail, RunRecord } from "../../../core/runs/run.js";
import type { PgClient } from "../driver.js";
import { arrayLiteral } from "../parameters/columns.js";
import { selectedEntry, selectedHook, selectedMail, selectedRun } from "./row.js";

interface LoadedRow extends RunRecord {
  readonly journal: JournalEntry[] | null;
  readonly unread: Mail[] | null;
  readonly hooks: HookRecord[] | null;
}

/**
 * Reads everything that is needed to continue these runs, in one statement and so from one snapshot: an entry and the mail that it
 * consumed are always consistent.
 */
export async function loadRuns(client: PgClient, schema: string, runs: readonly { readonly id: string }[]): Promise<Claimed[]> {
  const all = (what: string, from: string, order: string) =>
    `(SELECT json_agg(x ORDER BY ${order}) FROM (SELECT ${what} FROM ${schema}.${from}) x)`;
  const text = `SELECT ${selectedRun},
      ${all(selectedEntry, "journal WHERE run = r.id AND events IS NOT NULL", "x.seq")} AS journal,
      ${all(selectedMail, "mail WHERE run = r.id AND seq > r.consumed", "x.seq")} AS unread,
      ${all(selectedHook, "hooks WHERE run = r.id", 'x."createdAt", x.token')} AS hooks
    FROM ${schema}.runs r WHERE id = ANY ($1::text[])`;
  const values = [arrayLiteral(runs.map(({ id }) => id))];
  const { rows } = await client.query<LoadedRow>({ name: "onceflow-runs-load", text, values });
  return rows.map(({ journal, unread, hooks, ...run }) => ({
    run,
    lapsed: true,
    journal: journal ?? [],
    mail: unread ?? [],
    hooks: hooks ?? [],
  }));
}
