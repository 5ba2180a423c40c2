import type { SqliteDatabase, SqliteStatement } from "../driver.js";

/** Returns the prepared statement of a text. Each is prepared once, at its first use. */
export type Prepared = (sql: string) => SqliteStatement;

export function prepareOnce(database: Pick<SqliteDatabase, "prepare">): Prepared {
  const known = new Map<string, SqliteStatement>();
  return (sql) => {
    const there = known.get(sql);
    if (there !== undefined) return there;
    const statement = database.prepare(sql);
    known.set(sql, statement);
    return statement;
  };
}
