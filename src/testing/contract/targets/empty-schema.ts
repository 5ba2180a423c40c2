import type pg from "pg";

/**
 * Removes all rows of a schema of the PostgreSQL store, except those that say which migrations were applied: for tests, an empty schema costs
 * a tenth of a new one. False if the schema has no tables.
 */
export async function emptySchema(client: Pick<pg.Pool, "query">, schema: string): Promise<boolean> {
  const { rows } = await client.query<{ name: string }>("SELECT tablename AS name FROM pg_tables WHERE schemaname = $1", [schema]);
  const tables = rows.filter(({ name }) => !name.startsWith("schema_"));
  await client.query(tables.map(({ name }) => `DELETE FROM "${schema}"."${name}"`).join(";"));
  return tables.length > 0;
}
