import { ConfigurationError } from "../../../core/errors/errors.js";
import type { SqliteDatabase } from "../driver.js";
import { migrations } from "./index.js";

/*
 * One .sql file per version of the schema, applied in order, all that are missing in one transaction. Files after `numbered`
 * only add (tables, indexes, columns with a default), so that code of the version before goes on working beside the new one.
 */

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
