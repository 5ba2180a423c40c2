import type { PgClient } from "../driver.js";
import { inSchema } from "./tell.js";

/** A connection, and how statements are sent on it: on one of ours they are planned once. */
export interface RunConnection {
  readonly client: PgClient;
  readonly schema: string;
  readonly prepared: boolean;
}

/**
 * Asks a statement that answers with one text, JSON: it may pass through a client of a user's own transaction, and how that
 * client reads numbers is not ours to know. Undefined: no row.
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
