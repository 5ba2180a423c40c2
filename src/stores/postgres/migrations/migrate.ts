import { ConfigurationError } from "../../../core/errors/errors.js";
import { beginOurs } from "../connection/session.js";
import type { PgClient } from "../driver.js";
import { packetTables } from "../packets/schema.js";
import { chunkTables, restrictedRuns, runTables } from "../runs/schema.js";

/**
 * No index has a column that a settle changes: so a settle writes the row where it is, and no index at all. What is
 * unknown is found among the classes that can become unknown; what is over, by `purge_from`, which is set at begin and
 * is never later than the real expiry.
 *
 * One entry per version of the schema. Entries after `numbered` only add (tables, indexes, columns with a default), so that
 * code of the version before goes on working beside the new one. `$schema` stands for the quoted name of the schema that holds it all.
 */
const migrations: readonly string[] = [
  `
  CREATE TYPE $schema.effect AS ENUM ('idempotent', 'keyed', 'reconcile', 'atMostOnce');
  CREATE TABLE $schema.records (
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    state text NOT NULL,
    fingerprint text,
    effect $schema.effect NOT NULL,
    attempt bigint NOT NULL,
    owner text NOT NULL,
    created_at bigint NOT NULL,
    started_at bigint NOT NULL,
    lease_until bigint NOT NULL,
    settled_at bigint,
    retention_ms bigint,
    horizon_ms bigint NOT NULL,
    reconcile_after_ms bigint NOT NULL,
    outcome text,
    expires_at bigint,
    gone_at bigint,
    purge_from bigint,
    verdict text NOT NULL,
    note text,
    rev bigint NOT NULL,
    PRIMARY KEY (scope, key)
  ) WITH (fillfactor = 70);
  CREATE INDEX records_strict ON $schema.records (scope, key) WHERE effect >= 'reconcile';
  CREATE INDEX records_purge ON $schema.records (purge_from) WHERE purge_from IS NOT NULL;
  CREATE TABLE $schema.attempts (
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    attempt bigint NOT NULL,
    owner text NOT NULL,
    started_at bigint NOT NULL,
    ended_at bigint,
    verdict text NOT NULL,
    note text,
    PRIMARY KEY (scope, key, attempt)
  );
  CREATE TABLE $schema.audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    owner text NOT NULL,
    answer text NOT NULL,
    attempt bigint NOT NULL
  );
  CREATE INDEX audit_key ON $schema.audit (scope, key);
  COMMENT ON TABLE $schema.records IS 'One row per key. Instants are milliseconds since 1970 on this server''s clock.';
  COMMENT ON TABLE $schema.attempts IS 'Append-only: the ended attempts of a key. The present one is in records.';
  `,
  runTables,
  "ALTER TABLE $schema.records ADD COLUMN progress text;",
  chunkTables,
  packetTables,
  restrictedRuns,
];

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
      await client.query(sql.replaceAll("$schema", schema));
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
