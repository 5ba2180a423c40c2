import type pg from "pg";

/** What each version of the schema has added, by its number: what a database of before it does not have. */
interface Added {
  readonly version: number;
  readonly tables: readonly string[];
  /** Columns of `runs`. */
  readonly columns?: readonly string[];
  readonly indexes?: readonly string[];
}

const restricted = {
  tables: ["run_workers"],
  columns: ["deaths", "crashes", "alone", "avoid", "avoid_until", "unsettled"],
  indexes: ["runs_restricted"],
};

const sqliteAdded: readonly Added[] = [
  { version: 4, tables: ["chunks"] },
  { version: 5, tables: ["workers", "flows", "queues", "packets", "executions", "notes"] },
  { version: 6, tables: ["bundles", "bundles_gone"] },
  { version: 7, ...restricted },
];

const postgresAdded: readonly Added[] = [
  { version: 4, tables: ["chunks"] },
  { version: 5, tables: ["packets", "executions", "notes", "flows", "workers"] },
  { version: 6, ...restricted },
];

/** The newest version that the tests know, and the oldest one that they take a database back to. */
export const versions = { sqlite: 7, postgres: 6, oldest: 2 } as const;

/** Takes the database back to a version of its schema: what it held then it holds still. */
export function olderSqlite(database: { exec(sql: string): unknown }, version: number): void {
  database.exec(`${statements(sqliteAdded, version, "onceflow_")};
    ${version < 3 ? "ALTER TABLE onceflow_records DROP COLUMN progress;" : ""}
    DELETE FROM onceflow_schema WHERE version > ${version}; DELETE FROM onceflow_additions WHERE version > ${version}`);
}

/** The same. A value of an enum cannot be taken back: `parked` stays. */
export async function olderPostgres(client: pg.Client, schema: string, version: number): Promise<void> {
  await client.query(`${statements(postgresAdded, version, `${schema}.`)};
    ${version < 3 ? `ALTER TABLE ${schema}.records DROP COLUMN progress;` : ""}
    DELETE FROM ${schema}.schema_version WHERE version > ${version}; DELETE FROM ${schema}.schema_additions WHERE version > ${version}`);
}

function statements(added: readonly Added[], version: number, prefix: string): string {
  return added
    .filter((one) => one.version > version)
    .flatMap(({ tables, columns = [], indexes = [] }) => [
      ...indexes.map((index) => `DROP INDEX ${prefix}${index}`),
      ...columns.map((column) => `ALTER TABLE ${prefix}runs DROP COLUMN ${column}`),
      ...tables.map((table) => `DROP TABLE ${prefix}${table}`),
    ])
    .join(";\n");
}
