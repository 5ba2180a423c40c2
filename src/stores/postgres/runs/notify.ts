/**
 * Changes are announced by NOTIFY inside the statement that makes them, so that the notification is delivered when, and only if, the
 * statement commits. Watchers listen on one channel per schema (see watch.ts).
 *
 * Ends of runs are the exception. Thousands of runs can end per second; every watching process would receive each of
 * them (measured at 2 % of a run for the sender, and more for each listener), and a commit with NOTIFY takes
 * a lock that all databases of the server share. So a quick flush announces ends only if they are few, which is always the case under low
 * load; under high load, waiting callers find out by polling.
 */
export const endsNotifiedMax = 4;

/**
 * SQL that announces a change of the run `id`. A payload must be shorter than 8000 bytes; an empty one means that any run may have
 * changed.
 */
export function notify(id: string): string {
  return `pg_notify('$channel', CASE WHEN octet_length(${id}) < 8000 THEN ${id} ELSE '' END)`;
}

/** Prefix of a notification that only a stream of the run has grown. No id begins with it. */
export const chunksMark = "\u0001";

export function notifyOfChunks(id: string): string {
  return `pg_notify('$channel', chr(1) || CASE WHEN octet_length(${id}) < 7999 THEN ${id} ELSE '' END)`;
}

/** The schema's name without its quotes: a channel's name may be as long as a schema's. */
export function channelOf(schema: string): string {
  return schema.slice(1, -1);
}

/** Replaces the placeholders for the schema and its channel. */
export function inSchema(text: string, schema: string): string {
  return text.replaceAll("$schema", schema).replaceAll("$channel", channelOf(schema));
}
