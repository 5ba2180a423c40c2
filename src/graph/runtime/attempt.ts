import { BoundedCall } from "../../core/bounded-call.js";
import type { Clock } from "../../core/clock.js";
import type { PacketNote } from "../../core/packet.js";
import { NodeError } from "../node/node-error.js";
import { noTrace, type Trace } from "./payload.js";
import type { Route } from "./routes.js";

/** Why a call is aborted, or not made: the packet is with somebody else. */
export function leaseLost(): NodeError {
  return new NodeError("TIMEOUT", "this process was silent for longer than its lease; the packet is somebody else's");
}

/** What the nodes of a call are told of its packet. */
export interface Called {
  readonly no: number;
  readonly execution: number | null;
  readonly attempt: number;
  readonly note?: PacketNote | null;
}

/** One call of a stage: a node, and the nodes behind it that direct edges lead to. */
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

  /** Asked before a node is called: throws, or rejects, where the packet is not ours any more. Undefined: it is. */
  ready(): Promise<void> | undefined {
    return undefined;
  }

  within<T>(clock: Clock, graceMs: number, timeoutMsDefault: number, work: Promise<T>): Promise<T> {
    const { timeoutMs = timeoutMsDefault } = this.route.delivery;
    const late = () => new NodeError("TIMEOUT", `it took longer than ${timeoutMs} ms`);
    return this.bound(clock, { timeoutMs, graceMs, late }, work);
  }
}
