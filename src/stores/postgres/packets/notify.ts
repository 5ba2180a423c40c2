import { createHash } from "node:crypto";

/** Notifies processes that watch packets. The notification is delivered when, and only if, the transaction commits. */
export const notify = "pg_notify('$channel', '')";

/** A separate channel from that of runs. The schema is hashed, because a channel's name must not be longer than a schema's. */
export function packetChannel(schema: string): string {
  return `onceflow_packets_${createHash("sha256").update(schema).digest("hex").slice(0, 24)}`;
}

/** Replaces the placeholders for the schema and its channel. */
export function inSchema(text: string, schema: string): string {
  return text.includes("$channel")
    ? text.replaceAll("$schema", schema).replaceAll("$channel", packetChannel(schema))
    : text.replaceAll("$schema", schema);
}
