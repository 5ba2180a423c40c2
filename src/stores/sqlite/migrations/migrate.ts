import { ConfigurationError } from "../../../core/errors/errors.js";
import type { SqliteDatabase } from "../driver.js";
import { migrations } from "./index.js";

/*
 * One .sql file per version of the schema. All missing versions are applied in order, in one transaction. Files after `numbered`
 * only add (tables, indexes, columns with a default), so that the previous version of the code keeps working beside the new one.
 */

/**
 * The schema number of version 0.1.0, which refuses a file with a higher one. Later additions are recorded in a separate table, which
 * older code does not read: so a process of 0.1.0 can be restarted beside newer ones (docs/adr/0051).
 */
const numbered = 6;

/** Whether all migrations were applied. Only reads. */
export function isUpToDate(database: SqliteDatabase, path: string): boolean {
  const applied = appliedTo(database, path);
  return migrations.every((_, i) => applied.has(i + 1));
}

/** Brings the schema up to date. The caller holds the write lock, so that two processes cannot do it at once. */
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

/** The versions that were applied to this file. Additions of newer code are ignored; a higher number is an error. */
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
    `[onceflow] [sqlite] "${path}" has schema version ${version}, but this version of onceflow supports ${migrations.length}: update onceflow before opening it`,
    { code: "SCHEMA_NEWER" },
  );
}
