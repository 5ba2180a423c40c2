import type { PgClient } from "../driver.js";
import { inSchema } from "./notify.js";

/** A connection, and how statements are sent on it: on the store's own connections they are prepared. */
export interface RunConnection {
  readonly client: PgClient;
  readonly schema: string;
  readonly prepared: boolean;
}

/**
 * Runs a statement that returns one JSON text. JSON, because the statement may run on the client of a user's transaction, whose parsing of
 * numbers may be configured differently. Undefined: no row.
 */
export async function ask<T>(
  { client, schema, prepared }: RunConnection,
  statement: { readonly name: string; readonly text: string },
  values: readonly unknown[],
): Promise<T | undefined> {
  const name = prepared ? { name: `onceflow-runs-${statement.name}` } : {};
  const { rows } = await client.query<{ answer?: string }>({ ...name, text: inSchema(statement.text, schema), values: [...values] });
  return rows[0]?.answer === undefined ? undefined : (JSON.parse(rows[0].answer) as T);
}
