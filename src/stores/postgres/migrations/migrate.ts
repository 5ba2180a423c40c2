import { ConfigurationError } from "../../../core/errors/errors.js";
import { beginOurs } from "../connection/session.js";
import type { PgClient } from "../driver.js";
import { migrations } from "./index.js";

/*
 * One .sql file per version of the schema. Files after `numbered` only add (tables, indexes, columns with a default, values of
 * an enum), so that the previous version of the code keeps working beside the new one. `:"schema"` stands for the quoted name of
 * the schema; psql replaces it too (psql -v schema=onceflow).
 */
const schemaName = ':"schema"';

/** Key of the advisory lock: an arbitrary number, the same in every process, that no other application uses. */
const lock = 7_362_094_181;

/** Many processes may start at once, and each waits for those before it. */
const lockMsMax = 60_000;

/**
 * The schema number of version 0.1.0, which refuses a schema with a higher one. Later additions are recorded in a separate table, which
 * older code does not read: so a process of 0.1.0 can be restarted beside newer ones (docs/adr/0051).
 */
const numbered = 5;

/** Brings the schema up to date, in one transaction, one process at a time. No process waits if it is up to date. */
export async function migrate(client: PgClient, schema: string): Promise<void> {
  if (isUpToDate(await appliedTo(client, schema))) return;
  await client.query(`${beginOurs}; SET LOCAL lock_timeout = ${lockMsMax}`);
  try {
    await client.query("SELECT pg_advisory_xact_lock($1)", [lock]);
    const applied = await appliedTo(client, schema);
    if (applied.size === 0) {
      await client.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
      await client.query(`CREATE TABLE ${schema}.schema_version (version int NOT NULL)`);
    }
    if (!isUpToDate(applied)) await client.query(`CREATE TABLE IF NOT EXISTS ${schema}.schema_additions (version int PRIMARY KEY)`);
    for (const [i, sql] of migrations.entries()) {
      const version = i + 1;
      if (applied.has(version)) continue;
      await client.query(sql.replaceAll(schemaName, schema));
      const table = version <= numbered ? "schema_version" : "schema_additions";
      await client.query(`INSERT INTO ${schema}.${table} (version) VALUES ($1)`, [version]);
    }
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK").catch(() => {});
    throw error;
  }
}

const isUpToDate = (applied: ReadonlySet<number>): boolean => migrations.every((_, i) => applied.has(i + 1));

/** The versions that were applied to this schema. Additions of newer code are ignored; a higher number is an error. */
async function appliedTo(client: PgClient, schema: string): Promise<ReadonlySet<number>> {
  // Read from pg_tables, because to_regclass would cache in this session that the table does not exist.
  const tables = await client.query<{ name: string }>(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = $1 AND tablename IN ('schema_version', 'schema_additions')",
    [schema.replaceAll('"', "")],
  );
  if (tables.rows.length === 0) return new Set();
  const selects = tables.rows.map(({ name }) => `SELECT version, '${name}' = 'schema_version' AS numbered FROM ${schema}.${name}`);
  const { rows } = await client.query<{ version: number; numbered: boolean }>(selects.join(" UNION ALL "));
  const newest = Math.max(0, ...rows.filter((row) => row.numbered).map(({ version }) => version));
  if (newest > migrations.length) throw newer(schema, newest);
  return new Set(rows.map(({ version }) => version));
}

function newer(schema: string, version: number): ConfigurationError {
  return new ConfigurationError(
    `[onceflow] [postgres] schema ${schema} has version ${version}, but this version of onceflow supports ${migrations.length}: update onceflow before opening it`,
    { code: "SCHEMA_NEWER" },
  );
}
