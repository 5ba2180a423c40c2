import { NodeError } from "../../node/node-error.js";
import type { ProtocolError, SentPacket } from "../protocol/answer.js";
import type { Invocation } from "../protocol/invocation.js";
import type { Manifest } from "../server/manifest.js";

/** What a node server says about its state. */
export interface NodeHealth {
  readonly status: "serving" | "stopping";
  readonly inFlight: number;
  readonly concurrency: number;
}

/** A connection to a node server. Every method rejects with a NodeError, and at once when its signal aborts. */
export interface Transport {
  invoke(invocation: Invocation, options: { readonly streaming: boolean; readonly signal: AbortSignal }): Promise<readonly SentPacket[]>;
  health(signal: AbortSignal): Promise<NodeHealth>;
  manifest(signal: AbortSignal): Promise<Manifest>;
  close(): void;
}

/** The error that a server answered. */
export function answeredError({ code, message, retryAfterMs }: ProtocolError, what: string): NodeError {
  return new NodeError(code, `${what}: ${message}`, undefined, retryAfterMs === undefined ? {} : { retryAfterMs });
}

/** The reason of an aborted call: a NodeError of the runtime (TIMEOUT), or the signal of a user. */
export function abortError(signal: AbortSignal, what: string): NodeError {
  return NodeError.is(signal.reason) ? signal.reason : new NodeError("TEMPORARY", `${what}: the call was aborted`, signal.reason);
}
