/**
 * What others may care about is told by NOTIFY inside the statement that does it, so that it is heard when, and only
 * if, that is committed. Whoever watches listens on one channel per schema (see watch.ts).
 *
 * Ends are the exception. Runs can end by the thousands per second; every process that watches would have to take every
 * one of them (at the sender it was measured at 2 % of a run, at each listener at more), and a commit with a NOTIFY takes
 * a lock that all of the server's databases share. So a quick flush tells of ends only while they are few: when little
 * goes on, that is always; when much does, whoever waits finds out by looking.
 */
export const endsToldMax = 4;

/** The call that tells of the run `id`. A payload has less than 8000 bytes; none means: something, look yourself. */
export function tell(id: string): string {
  return `pg_notify('$channel', CASE WHEN octet_length(${id}) < 8000 THEN ${id} ELSE '' END)`;
}

/** No id begins with it: only a stream of the run has grown. */
export const chunksMark = "\u0001";

export function tellOfChunks(id: string): string {
  return `pg_notify('$channel', chr(1) || CASE WHEN octet_length(${id}) < 7999 THEN ${id} ELSE '' END)`;
}

/** A channel is a name as long as a schema's may be. */
export function channelOf(schema: string): string {
  return schema.slice(1, -1);
}

/** A statement with the names of the schema and of its channel in it. */
export function inSchema(text: string, schema: string): string {
  return text.replaceAll("$schema", schema).replaceAll("$channel", channelOf(schema));
}
