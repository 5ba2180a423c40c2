import { ConfigurationError } from "../../core/errors.js";
import { beginOurs, type PgClient } from "./driver.js";
import { packetTables } from "./packet-schema.js";
import { chunkTables, restrictedRuns, runTables } from "./run-schema.js";

/**
 * No index has a column that a settle changes: so a settle writes the row where it is, and no index at all. What is
 * unknown is found among the classes that can become unknown; what is over, by `purge_from`, which is set at begin and
 * is never later than the real expiry.
 *
 * One entry per version of the schema. `$schema` stands for the quoted name of the schema that holds it all.
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

/** Brings the schema up to date, in one transaction, one process at a time. Nobody waits where it is. */
export async function migrate(client: PgClient, schema: string): Promise<void> {
  if ((await versionOf(client, schema)) === migrations.length) return;
  await client.query(`${beginOurs}; SET LOCAL lock_timeout = ${lockMsMax}`);
  try {
    await client.query("SELECT pg_advisory_xact_lock($1)", [lock]);
    const version = await versionOf(client, schema);
    if (version > migrations.length) throw newer(schema, version);
    if (version === 0) {
      await client.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
      await client.query(`CREATE TABLE ${schema}.schema_version (version int NOT NULL)`);
    }
    for (const [i, sql] of migrations.entries()) {
      if (i < version) continue;
      await client.query(sql.replaceAll("$schema", schema));
      await client.query(`INSERT INTO ${schema}.schema_version (version) VALUES ($1)`, [i + 1]);
    }
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK").catch(() => {});
    throw error;
  }
}

async function versionOf(client: PgClient, schema: string): Promise<number> {
  // As a row of a table: to_regclass would remember in this session that there was none.
  const exists = await client.query("SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'schema_version'", [
    schema.replaceAll('"', ""),
  ]);
  if (exists.rows.length === 0) return 0;
  const { rows } = await client.query(`SELECT coalesce(max(version), 0) AS version FROM ${schema}.schema_version`);
  return Number(rows[0]?.["version"]);
}

function newer(schema: string, version: number): ConfigurationError {
  return new ConfigurationError(
    `[onceflow] [postgres] schema ${schema} has version ${version}, and this code knows ${migrations.length}: update onceflow before opening it`,
    { code: "SCHEMA_NEWER" },
  );
}
