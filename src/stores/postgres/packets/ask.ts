import { sentAgain } from "../connection/send-again.js";
import type { PgClient } from "../driver.js";
import { inSchema } from "./tell.js";

/** A connection, and how statements are sent on it: on one of ours they are planned once. */
export interface PacketConnection {
  readonly client: PgClient;
  readonly schema: string;
  readonly prepared: boolean;
}

/**
 * Every statement of packets answers with one text, JSON: it may pass through a client of a handler's own, and how that one
 * reads numbers is not ours to know.
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

/** `ask` for a statement outside of a transaction: repeated while it cannot be serialized. */
export function askAlone<T>(...asked: Parameters<typeof ask>): Promise<T> {
  return sentAgain(() => ask<T>(...asked));
}
