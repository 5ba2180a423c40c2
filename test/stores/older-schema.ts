import type pg from "pg";

/** What a version of the schema added. A database of an older version does not have it. */
interface Added {
  readonly version: number;
  readonly tables: readonly string[];
  /** Columns, by table. */
  readonly columns?: Readonly<Record<string, readonly string[]>>;
  readonly indexes?: readonly string[];
  /** Statements that remove what is neither a table nor a column nor an index, before all others. */
  readonly before?: readonly string[];
}

const restricted = {
  tables: ["run_workers"],
  columns: { runs: ["deaths", "crashes", "alone", "avoid", "avoid_until", "unsettled"] },
  indexes: ["runs_restricted"],
};
const reaching = { tables: [], columns: { packets: ["reach"] }, indexes: ["packets_reach"] };
const logging = { tables: ["operator_log"], columns: { runs: ["deadline_at", "stop_at"] }, indexes: ["runs_stop"] };
const history = {
  tables: ["deliveries", "execution_attributes"],
  columns: { executions: ["scope", "attributes"] },
  indexes: ["executions_scope"],
};

const searching = {
  tables: ["run_attributes"],
  columns: { runs: ["scope", "attributes", "error_name", "error_code"], hooks: ["scope"] },
  indexes: [
    ...["ended", "parent", "error_name", "error_code", "person"].map((name) => `runs_${name}`),
    ...["listed", "ended", "id", "error_name", "error_code", "person"].map((name) => `runs_scope_${name}`),
    "hooks_scope",
  ],
};

const sqliteAdded: readonly Added[] = [
  { version: 4, tables: ["chunks"] },
  { version: 5, tables: ["workers", "flows", "queues", "packets", "executions", "notes"] },
  { version: 6, tables: ["bundles", "bundles_gone"] },
  { version: 7, ...restricted },
  { version: 8, ...reaching },
  { version: 9, ...logging },
  {
    version: 10,
    ...searching,
    indexes: [...searching.indexes, "runs_listed"],
    before: ["added", "changed", "removed"].map((when) => `DROP TRIGGER onceflow_runs_attributes_${when}`),
  },
  { version: 11, ...history },
];

const postgresAdded: readonly Added[] = [
  { version: 4, tables: ["chunks"] },
  { version: 5, tables: ["packets", "executions", "notes", "flows", "workers"] },
  { version: 6, ...restricted },
  { version: 7, ...reaching },
  { version: 8, ...logging },
  { version: 9, ...searching, before: ["DROP FUNCTION $schema.keep_run_attributes CASCADE"] },
  { version: 10, ...history },
];

/** The newest version that the tests know, and the oldest version to which they downgrade a database. */
export const versions = { sqlite: 11, postgres: 10, oldest: 2 } as const;

/** Downgrades the schema of a database to `version`. Data of tables and columns that existed then is kept. */
export function olderSqlite(database: { exec(sql: string): unknown }, version: number): void {
  database.exec(`${statements(sqliteAdded, version, "onceflow_")};
    ${version < 3 ? "ALTER TABLE onceflow_records DROP COLUMN progress;" : ""}
    DELETE FROM onceflow_schema WHERE version > ${version}; DELETE FROM onceflow_additions WHERE version > ${version}`);
}

/** The same for PostgreSQL, except that values of an enum cannot be removed: `parked` and `paused` stay. */
export async function olderPostgres(client: pg.Client, schema: string, version: number): Promise<void> {
  await client.query(`${statements(postgresAdded, version, `${schema}.`)};
    ${version < 3 ? `ALTER TABLE ${schema}.records DROP COLUMN progress;` : ""}
    DELETE FROM ${schema}.schema_version WHERE version > ${version}; DELETE FROM ${schema}.schema_additions WHERE version > ${version}`);
}

function statements(added: readonly Added[], version: number, prefix: string): string {
  return added
    .filter((one) => one.version > version)
    .toReversed()
    .flatMap(({ tables, columns = {}, indexes = [], before = [] }) => [
      ...before.map((statement) => statement.replace("$schema.", prefix)),
      ...indexes.map((index) => `DROP INDEX ${prefix}${index}`),
      ...Object.entries(columns).flatMap(([table, names]) => names.map((name) => `ALTER TABLE ${prefix}${table} DROP COLUMN ${name}`)),
      ...tables.map((table) => `DROP TABLE ${prefix}${table}`),
    ])
    .join(";\n");
}
