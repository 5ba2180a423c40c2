import type { PacketNote } from "../../../core/packets/packet.js";
import { BoundedCall } from "../../../core/work/bounded-call.js";
import type { Clock } from "../../../core/work/clock.js";
import { NodeError } from "../../node/node-error.js";
import type { Route } from "../flows/route.js";
import { isRetried } from "./failure.js";
import { noTrace, type Trace } from "./payload.js";

/** Why a call is aborted, or not made: another worker may have the packet. */
export function leaseLost(): NodeError {
  return new NodeError("TIMEOUT", "this worker did not renew its lease in time; another worker may have taken the packet");
}

/** What a stage knows of the packet that it is called for. */
export interface Called {
  readonly no: number;
  readonly execution: number | null;
  readonly attempt: number;
  readonly note?: PacketNote | null;
  /** When the packet was sent (store clock, ms). Undefined: it is not in the store. */
  readonly createdAt?: number;
}

/** One call of a stage: a node, and the nodes behind its direct edges. */
export class Attempt extends BoundedCall {
  readonly route: Route;
  readonly packet: Called;
  trace: Trace;

  constructor(route: Route, packet: Called, trace: Trace = noTrace) {
    super();
    this.route = route;
    this.packet = packet;
    this.trace = trace;
  }

  /** When the time limit ends, on `#clock`. Infinite before `startLimit`. */
  #limitAt = Number.POSITIVE_INFINITY;
  #clock: Clock | undefined;

  /** The nodes returned after the time limit of the last attempt: the timeout is the outcome, and the success is noted. */
  succeededLate = false;

  /** The store's time; undefined for a call without a stored packet. */
  get storeNow(): number | undefined {
    return undefined;
  }

  /** How many attempts have failed if this one fails. */
  get failures(): number {
    return this.packet.attempt;
  }

  /** Whether another attempt would follow a timeout. */
  get isRetriedAfterTimeout(): boolean {
    return isRetried({ code: "TIMEOUT", final: false }, this.route.delivery.retry, this.failures);
  }

  /** Called before each node: throws or rejects if another worker may have the packet, or the time limit has passed. Undefined: continue. */
  checkLease(): Promise<void> | undefined {
    if (this.isAborted) throw this.abortReason;
    return undefined;
  }

  /** Called before the first node, so that nodes can pass on how much time is left. `beganAt`: on `clock`. */
  startLimit(clock: Clock, beganAt: number, timeoutMsDefault: number): void {
    this.#clock = clock;
    this.#limitAt = beganAt + (this.route.delivery.timeoutMs ?? timeoutMsDefault);
  }

  /** Milliseconds until the time limit; undefined if the attempt has none. */
  get remainingMs(): number | undefined {
    return this.#clock && Math.max(0, this.#limitAt - this.#clock.now());
  }

  /**
   * Applies the time limit to `work`. If the nodes return late, but within `graceMs`, and another attempt would follow,
   * their result is the outcome: another call would repeat an effect that is known to have happened. On the last attempt
   * the timeout is the outcome, and its message says that the nodes returned.
   */
  within<T>(clock: Clock, graceMs: number, timeoutMsDefault: number, work: Promise<T>): Promise<T> {
    const { timeoutMs = timeoutMsDefault } = this.route.delivery;
    const beganAt = clock.now();
    const timeoutError = () => new NodeError("TIMEOUT", `the delivery did not finish within ${timeoutMs} ms`);
    const judgeLateSuccess = (timeout: Error): Error | undefined => {
      if (this.isRetriedAfterTimeout) return undefined;
      this.succeededLate = true;
      const ms = Math.round(clock.now() - beganAt);
      return new NodeError("TIMEOUT", `${timeout.message}; it succeeded after ${ms} ms, too late to count, but its effect has happened`);
    };
    return this.bound(clock, { timeoutMs, graceMs, timeoutError, judgeLateSuccess }, work);
  }
}
