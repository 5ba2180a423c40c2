import { InvalidInputError, OnceflowError, registerErrors } from "../../core/errors/errors.js";

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

  constructor(code: NodeErrorCode, message: string, cause?: unknown) {
    if (!nodeErrorCodes.includes(code))
      throw new InvalidInputError("code", `must be one of ${nodeErrorCodes.join(", ")}, not ${String(code)}`);
    super(message, { code, retryable: !final.has(code), ...(cause === undefined ? {} : { cause }) });
  }
}

registerErrors(NodeError);
