import { InvalidInputError, OnceflowError, registerErrors } from "../../core/errors/errors.js";
import { duration } from "../../core/ledger/options.js";

/** Error codes of nodes. The first three are not retried: the packet becomes a dead letter at once. */
export const nodeErrorCodes = [
  ...(["VALIDATION", "INPUT_MISSING", "PERMANENT"] as const),
  ...(["TIMEOUT", "RATE_LIMITED", "TEMPORARY", "NETWORK_ERROR"] as const),
];
/** The code of a NodeError. */
export type NodeErrorCode = (typeof nodeErrorCodes)[number];

const final: ReadonlySet<NodeErrorCode> = new Set(["VALIDATION", "INPUT_MISSING", "PERMANENT"]);

/**
 * An error that a node throws. VALIDATION, INPUT_MISSING and PERMANENT are not retried; the other codes, and errors of any other
 * class, are retried by the edge's retry policy. Throws InvalidInputError for an unknown code.
 *
 * @example
 * throw new NodeError("RATE_LIMITED", "the SMS provider asks to wait", error);
 */
export class NodeError extends OnceflowError {
  static override readonly kind: string = "NodeError";
  declare readonly code: NodeErrorCode;

  /** `retryAfterMs`: the retry waits at least so long, also if the edge's retry policy has a shorter delay; at most one day. */
  constructor(code: NodeErrorCode, message: string, cause?: unknown, { retryAfterMs }: { readonly retryAfterMs?: number } = {}) {
    if (!nodeErrorCodes.includes(code))
      throw new InvalidInputError("code", `must be one of ${nodeErrorCodes.join(", ")}, not ${String(code)}`);
    if (retryAfterMs !== undefined) duration("retryAfterMs", retryAfterMs);
    const later = retryAfterMs === undefined ? {} : { retryAfterMs };
    super(message, { code, retryable: !final.has(code), ...(cause === undefined ? {} : { cause }), ...later });
  }
}

registerErrors(NodeError);
