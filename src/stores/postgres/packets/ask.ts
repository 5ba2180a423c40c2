import { sentAgain } from "../connection/send-again.js";
import type { PgClient } from "../driver.js";
import { inSchema } from "./notify.js";

/** A connection, and how statements are sent on it: on the store's own connections they are prepared. */
export interface PacketConnection {
  readonly client: PgClient;
  readonly schema: string;
  readonly prepared: boolean;
}

/**
 * Runs a statement that returns one JSON text. JSON, because the statement may run on a handler's client, whose parsing of numbers
 * may be configured differently.
 */
export async function ask<T>(
  { client, schema, prepared }: PacketConnection,
  statement: { readonly name: string; readonly text: string },
  values: readonly unknown[],
): Promise<T> {
  const text = inSchema(statement.text, schema);
  const name = prepared ? { name: `onceflow-packets-${statement.name}` } : {};
  const { rows } = await client.query<{ answer: string }>({ ...name, text, values: [...values] });
  return JSON.parse(rows[0]?.answer ?? "{}") as T;
}

/** `ask` for a statement outside a transaction: retried after a serialization failure. */
export function askAlone<T>(...asked: Parameters<typeof ask>): Promise<T> {
  return sentAgain(() => ask<T>(...asked));
}
