import { ConfigurationError } from "../../../core/errors/errors.js";
import { beginOurs } from "../connection/session.js";
import type { PgClient } from "../driver.js";
import { migrations } from "./index.js";

/*
 * One .sql file per version of the schema. Files after `numbered` only add (tables, indexes, columns with a default, values of
 * an enum), so that code of the version before goes on working beside the new one. `:"schema"` stands for the quoted name of
 * the schema that holds it all; psql replaces it, too (psql -v schema=onceflow).
 */
const schemaName = ':"schema"';

/** Any number: it only has to be the same in every process that opens a store, and nobody else's. */
const lock = 7_362_094_181;

/** Many processes may begin at once, and each waits for all before it. */
const lockMsMax = 60_000;

/**
 * The number that version 0.1.0 knows; it refuses a schema with a higher one. What has been added since is recorded in a table of
 * its own, which older code does not look at: a process of 0.1.0 can be started again beside newer ones (docs/adr/0051).
 */
const numbered = 5;

/** Brings the schema up to date, in one transaction, one process at a time. Nobody waits where it is. */
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

/** The versions that this schema has. Additions of newer code are none of our business; a higher number is. */
async function appliedTo(client: PgClient, schema: string): Promise<ReadonlySet<number>> {
  // As rows of a table: to_regclass would remember in this session that there was none.
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
    `[onceflow] [postgres] schema ${schema} has version ${version}, and this code knows ${migrations.length}: update onceflow before opening it`,
    { code: "SCHEMA_NEWER" },
  );
}
