import { createHash } from "node:crypto";

/** The call that tells whoever watches packets that something may be theirs. It is heard when, and only if, it is committed. */
export const tell = "pg_notify('$channel', '')";

/** A channel of their own: whoever watches runs hears nothing of packets. A name may be as long as a schema's, hence the hash. */
export function packetChannel(schema: string): string {
  return `onceflow_packets_${createHash("sha256").update(schema).digest("hex").slice(0, 24)}`;
}

/** A statement with the names of the schema and of its channel in it. */
export function inSchema(text: string, schema: string): string {
  return text.includes("$channel")
    ? text.replaceAll("$schema", schema).replaceAll("$channel", packetChannel(schema))
    : text.replaceAll("$schema", schema);
}
