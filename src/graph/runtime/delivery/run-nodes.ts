import type { Clock } from "../../../core/work/clock.js";
import type { handle, NodeOutput } from "../../node/node.js";
import type { BatchCall } from "./batch.js";
import type { Delivery } from "./delivery.js";
import type { Leaving, Sent } from "./leaving.js";
import { inputsOf } from "./payload.js";
import { type RecoveryPorts, recover } from "./recovery.js";
import { type FailurePorts, type Settling, settleDone, settleThrown, settleWithoutCall } from "./settling.js";
import { runStage } from "./stage.js";

/** What a run of nodes needs from the worker. */
export interface RunPorts extends RecoveryPorts, FailurePorts {
  readonly clock: Clock;
  /** Time limit of deliveries whose edge and node have none. */
  readonly timeoutMs: number;
  readonly graceMs: number;
  /** Lets packets that the delivery sends on use its slot, while the delivery waits for its commit. */
  shareSlot(delivery: Delivery): void;
  /** Throws if the queue of an edge in memory is full. */
  checkMemoryRoom(sent: readonly Sent[]): void;
}

/**
 * Takes one delivery from its packet to its settling, which the worker then commits:
 *
 * 0. The mark of a packet that was lost in the memory of a dead process: report it, and call no node.
 * 1. If a worker died while it had the packet, `recovery.ts` may settle it without a call, by the edge's recovery strategy.
 * 2. Check the lease: no node is called for a packet that another worker may have.
 * 3. Run the stage (`stage.ts`): the node, and the nodes that direct edges lead to, within the time limit.
 * 4. Encode what the stage sent (`settling.ts` → `pack.ts` → `outgoing.ts`) and reserve slots for it.
 * 5. On an error: retry or dead letter (`failure.ts`), or later without a counted attempt (`node/deliver-later.ts`).
 *
 * Returns without a promise if no node returned one: most hops cost no promise before their commit.
 */
export function runNodes(delivery: Delivery, ports: RunPorts): Settling | Promise<Settling> {
  const { packet, batch, route } = delivery;
  if (route.reportLost !== undefined) {
    const { next, valueBytesMax } = ports.sender;
    const { data } = delivery.payload;
    return settleWithoutCall(null, route.reportLost({ execution: packet.execution, data, next, valueBytesMax }));
  }
  if (packet.crashes > 0 || batch !== undefined) return recoverThenCall(delivery, ports);
  try {
    const checking = delivery.checkLease(delivery.start());
    const leaving = checking === undefined ? callStage(delivery, ports) : checking.then(() => callStage(delivery, ports));
    return leaving instanceof Promise ? settleLater(delivery, leaving, ports) : settle(delivery, leaving, ports);
  } catch (error) {
    return settleThrown(delivery, error, ports);
  }
}

async function settleLater(delivery: Delivery, leaving: Promise<Leaving>, ports: RunPorts): Promise<Settling> {
  try {
    return settle(delivery, await leaving, ports);
  } catch (error) {
    return settleThrown(delivery, error, ports);
  }
}

/** The path of a packet whose earlier worker died, and of a packet in a batch. */
async function recoverThenCall(delivery: Delivery, ports: RunPorts): Promise<Settling> {
  const { packet, batch } = delivery;
  let joined = false;
  const join = (...[, input]: Parameters<typeof handle>): Promise<NodeOutput> => {
    joined = true;
    return (batch as BatchCall).join(input, () => delivery.mayBeCalled());
  };
  delivery.start();
  try {
    const recovered = packet.crashes > 0 ? await recover(delivery, ports) : undefined;
    if (recovered !== undefined) return recovered;
    await delivery.checkLease();
    return settle(delivery, await callStage(delivery, ports, batch && join), ports);
  } catch (error) {
    return settleThrown(delivery, error, ports);
  } finally {
    if (!joined) batch?.leave();
  }
}

/** The time limit applies from the first promise on: a node that returns at once needs no timer. */
function callStage(delivery: Delivery, ports: RunPorts, call?: typeof handle): Leaving | Promise<Leaving> {
  const { route, packet } = delivery;
  const { data, trace } = delivery.payload;
  delivery.trace = trace;
  delivery.startLimit(ports.clock, delivery.startedAt, ports.timeoutMs);
  const running = runStage(delivery, inputsOf(packet, route.port, data), packet.key?.key, call);
  return running instanceof Promise ? delivery.within(ports.clock, ports.graceMs, ports.timeoutMs, running) : running;
}

function settle(delivery: Delivery, leaving: Leaving, ports: RunPorts): Settling {
  ports.shareSlot(delivery);
  if (leaving.ephemeral.length > 0) ports.checkMemoryRoom(leaving.ephemeral);
  return settleDone(delivery, leaving, ports.sender);
}
