import { ConfigurationError } from "../../../core/errors/errors.js";
import type { SqliteDatabase } from "../driver.js";
import { bundleSchema, packetSchema } from "../packets/schema.js";

/**
 * Every page that a commit touches is paid for at every operation. So the table is its own primary key, and the index
 * that finds what is unknown among millions holds only classes that can become unknown: the others do not pay for it.
 *
 * One entry per version of the schema, applied in order, all that are missing in one transaction. Entries after `numbered`
 * only add (tables, indexes, columns with a default), so that code of the version before goes on working beside the new one.
 */
const migrations: readonly string[] = [
  `
  CREATE TABLE onceflow_records (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    state TEXT NOT NULL,
    fingerprint TEXT,
    effect TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    owner TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    settled_at INTEGER,
    retention_ms INTEGER,
    horizon_ms INTEGER NOT NULL,
    reconcile_after_ms INTEGER NOT NULL,
    outcome TEXT,
    expires_at INTEGER,
    gone_at INTEGER,
    verdict TEXT NOT NULL,
    note TEXT,
    rev INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX onceflow_records_doubt ON onceflow_records (scope, key)
    WHERE state = 'unknown' OR (state = 'running' AND effect IN ('reconcile', 'atMostOnce'));
  CREATE INDEX onceflow_records_expiry ON onceflow_records (expires_at) WHERE expires_at IS NOT NULL;
  CREATE TABLE onceflow_attempts (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    owner TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    verdict TEXT NOT NULL,
    note TEXT,
    PRIMARY KEY (scope, key, attempt)
  ) STRICT;
  CREATE TABLE onceflow_audit (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    at INTEGER NOT NULL,
    owner TEXT NOT NULL,
    answer TEXT NOT NULL,
    attempt INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX onceflow_audit_key ON onceflow_audit (scope, key);
  `,
  // Runs have numbers, given in the order of their creation, and their journal and mail are kept by number: whatever
  // runs now lies side by side on the last pages, however their ids are made. With ids in their place every commit of
  // fifty random runs wrote fifty pages, and was a third as fast. Texts of any length come last in their row: what a
  // statement compares is found without reading them.
  `
  CREATE TABLE onceflow_runs (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    status TEXT NOT NULL,
    owner TEXT,
    epoch INTEGER NOT NULL,
    wake_at INTEGER,
    mail INTEGER NOT NULL,
    consumed INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    retention_ms INTEGER,
    expires_at INTEGER,
    parent TEXT,
    creator TEXT NOT NULL,
    fingerprint TEXT,
    trouble TEXT,
    input TEXT,
    output TEXT
  ) STRICT;
  CREATE UNIQUE INDEX onceflow_runs_id ON onceflow_runs (id);
  CREATE INDEX onceflow_runs_queue ON onceflow_runs (owner, workflow, wake_at) WHERE ended_at IS NULL;
  CREATE INDEX onceflow_runs_newest ON onceflow_runs (created_at, id, workflow);
  CREATE INDEX onceflow_runs_rare ON onceflow_runs (status, created_at, id) WHERE status NOT IN ('running', 'completed');
  CREATE INDEX onceflow_runs_expiry ON onceflow_runs (expires_at) WHERE expires_at IS NOT NULL;
  CREATE TABLE onceflow_journal (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    at INTEGER NOT NULL,
    events TEXT NOT NULL,
    PRIMARY KEY (run, seq)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE onceflow_mail (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    key TEXT NOT NULL,
    kind TEXT NOT NULL,
    about TEXT,
    payload TEXT,
    at INTEGER NOT NULL,
    PRIMARY KEY (run, seq)
  ) STRICT, WITHOUT ROWID;
  CREATE UNIQUE INDEX onceflow_mail_key ON onceflow_mail (run, key);
  CREATE TABLE onceflow_hooks (
    no INTEGER PRIMARY KEY,
    token TEXT NOT NULL,
    run INTEGER NOT NULL,
    about TEXT NOT NULL,
    metadata TEXT,
    created_at INTEGER NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX onceflow_hooks_token ON onceflow_hooks (token);
  CREATE INDEX onceflow_hooks_run ON onceflow_hooks (run);
  `,
  "ALTER TABLE onceflow_records ADD COLUMN progress TEXT;",
  // A chunk's place in its stream, and its writer's own count: each is taken once.
  `
  CREATE TABLE onceflow_chunks (
    no INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    stream TEXT NOT NULL,
    place INTEGER NOT NULL,
    writer TEXT NOT NULL,
    n INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    kind TEXT NOT NULL,
    size INTEGER NOT NULL,
    value TEXT,
    bytes BLOB
  ) STRICT;
  CREATE UNIQUE INDEX onceflow_chunks_place ON onceflow_chunks (run, stream, place);
  CREATE UNIQUE INDEX onceflow_chunks_count ON onceflow_chunks (run, writer, stream, n);
  CREATE INDEX onceflow_chunks_end ON onceflow_chunks (run, stream) WHERE kind IN ('end', 'error');
  `,
  packetSchema,
  bundleSchema,
  // What few runs have, behind the texts of their row: a run without it is as short as before. Runs that not every worker
  // may claim have an index of their own, so that a claim finds them without looking through the queue.
  `
  ALTER TABLE onceflow_runs ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE onceflow_runs ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE onceflow_runs ADD COLUMN alone INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE onceflow_runs ADD COLUMN avoid TEXT;
  ALTER TABLE onceflow_runs ADD COLUMN avoid_until INTEGER;
  ALTER TABLE onceflow_runs ADD COLUMN unsettled INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX onceflow_runs_restricted ON onceflow_runs (workflow, wake_at)
    WHERE ended_at IS NULL AND wake_at IS NOT NULL AND (deaths >= 2 OR avoid IS NOT NULL);
  CREATE TABLE onceflow_run_workers (
    id TEXT NOT NULL PRIMARY KEY,
    workflows TEXT NOT NULL,
    version TEXT,
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
];

/**
 * The number that version 0.1.0 knows; it refuses a file with a higher one. What has been added since is recorded in a table of
 * its own, which older code does not look at: a process of 0.1.0 can be started again beside newer ones (docs/adr/0051).
 */
const numbered = 6;

/** Only reads. */
export function isUpToDate(database: SqliteDatabase, path: string): boolean {
  const applied = appliedTo(database, path);
  return migrations.every((_, i) => applied.has(i + 1));
}

/** Brings the schema up to date. The caller holds the write lock, so that two processes cannot both do it. */
export function migrate(database: SqliteDatabase, path: string): void {
  database.exec(`CREATE TABLE IF NOT EXISTS onceflow_schema (version INTEGER NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS onceflow_additions (version INTEGER PRIMARY KEY) STRICT`);
  const applied = appliedTo(database, path);
  for (const [i, sql] of migrations.entries()) {
    const version = i + 1;
    if (applied.has(version)) continue;
    database.exec(sql);
    database.prepare(`INSERT INTO ${version <= numbered ? "onceflow_schema" : "onceflow_additions"} (version) VALUES (?)`).run(version);
  }
}

/** The versions that this file has. Additions of newer code are none of our business; a higher number is. */
function appliedTo(database: SqliteDatabase, path: string): ReadonlySet<number> {
  const versionsIn = (table: string): number[] => {
    const there = database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?").get(table) !== undefined;
    const rows = there ? (database.prepare(`SELECT version FROM ${table}`).all() as { version: number }[]) : [];
    return rows.map(({ version }) => version);
  };
  const numbers = versionsIn("onceflow_schema");
  const newest = Math.max(0, ...numbers);
  if (newest > migrations.length) throw newer(path, newest);
  return new Set([...numbers, ...versionsIn("onceflow_additions")]);
}

function newer(path: string, version: number): ConfigurationError {
  return new ConfigurationError(
    `[onceflow] [sqlite] "${path}" has schema version ${version}, and this code knows ${migrations.length}: update onceflow before opening it`,
    { code: "SCHEMA_NEWER" },
  );
}
