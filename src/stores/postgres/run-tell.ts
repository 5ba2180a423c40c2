/**
 * What others may care about is told by NOTIFY inside the statement that does it, so that it is heard when, and only
 * if, that is committed. Whoever watches listens on one channel per schema (see run-watch.ts).
 *
 * Ends are the exception. Runs that are executed where they were created can end by the thousands per second, every
 * listener would have to take every one of them, and a commit with a NOTIFY takes a lock that all of the server's
 * databases share. Of those, a flush tells only a few: when little goes on, that is all of them; when much does,
 * whoever waits finds out by looking.
 */
export const endsToldMax = 4;

/** The call that tells of the run `id`. A payload has less than 8000 bytes; none means: something, look yourself. */
export function tell(id: string): string {
  return `pg_notify('$channel', CASE WHEN octet_length(${id}) < 8000 THEN ${id} ELSE '' END)`;
}

/** A channel is a name as long as a schema's may be. */
export function channelOf(schema: string): string {
  return schema.slice(1, -1);
}

/** A statement with the names of the schema and of its channel in it. */
export function inSchema(text: string, schema: string): string {
  return text.replaceAll("$schema", schema).replaceAll("$channel", channelOf(schema));
}
