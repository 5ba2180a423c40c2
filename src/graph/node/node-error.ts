import { InvalidInputError, OnceflowError, registerErrors } from "../../core/errors/errors.js";

/** What a node says went wrong. Those of the first line are not tried again: the packet goes to the dead letters at once. */
export const nodeErrorCodes = [
  ...(["VALIDATION", "INPUT_MISSING", "PERMANENT"] as const),
  ...(["TIMEOUT", "RATE_LIMITED", "TEMPORARY", "NETWORK_ERROR"] as const),
];
export type NodeErrorCode = (typeof nodeErrorCodes)[number];

const final: ReadonlySet<NodeErrorCode> = new Set(["VALIDATION", "INPUT_MISSING", "PERMANENT"]);

/**
 * Thrown by a node. `retryable` says whether the edge's policy may try again; so it does after anything else that is thrown.
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
