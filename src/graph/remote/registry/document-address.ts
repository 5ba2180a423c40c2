import type { PlannedNode } from "../../plan/plan.js";

/** Where a document says that a node is. */
export interface DocumentAddress {
  readonly url: string;
  readonly tokenEnv?: string;
  readonly concurrency?: number;
  readonly streaming?: boolean;
}

/**
 * The address of a node in its document: `runtime.http.url`, or `runtime.grpc` with a port. If it has both, the protocol of the
 * edges decides; without one, HTTP. An edge with protocol `proc` asks for code in this process.
 */
export function addressOf({ runtime, incoming }: PlannedNode): DocumentAddress | undefined {
  if (runtime === undefined) return undefined;
  const asked = incoming
    .map(({ protocol }) => protocol)
    .find((protocol) => protocol === "http" || protocol === "grpc" || protocol === "proc");
  if (asked === "proc") return undefined;
  const { http, grpc } = runtime;
  if (http !== undefined && asked !== "grpc") return http;
  if (grpc?.port === undefined || asked === "http") return undefined;
  const { host = "127.0.0.1", port, tls = false, streaming, streamsMax, tokenEnv } = grpc;
  return {
    url: `${tls ? "grpcs" : "grpc"}://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${port}`,
    ...(tokenEnv !== undefined && { tokenEnv }),
    ...(streamsMax !== undefined && { concurrency: Math.min(streamsMax, callsMax) }),
    ...(streaming !== undefined && { streaming }),
  };
}

const callsMax = 100_000;
