import { BoundedCall } from "../../core/bounded-call.js";
import type { Clock } from "../../core/clock.js";
import { NodeError } from "../node/node-error.js";

/** Why a call is aborted, or not made: the packet is with somebody else. */
export function leaseLost(): NodeError {
  return new NodeError("TIMEOUT", "this process was silent for longer than its lease; the packet is somebody else's");
}

/** One call of a node. */
export class Attempt extends BoundedCall {
  within<T>(clock: Clock, timeoutMs: number, graceMs: number, work: Promise<T>): Promise<T> {
    const late = () => new NodeError("TIMEOUT", `it took longer than ${timeoutMs} ms`);
    return this.bound(clock, { timeoutMs, graceMs, late }, work);
  }
}
