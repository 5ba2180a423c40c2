import { withFailure } from "../../../core/packets/history.js";
import type { NewPacket } from "../../../core/packets/operation.js";
import { trialOf } from "../../../core/packets/worker/trial.js";
import type { Store } from "../../../core/store/store.js";
import { afterEffect } from "../../../core/work/until-answered.js";
import type { Route } from "../flows/route.js";
import { packetId } from "../views/ids.js";
import type { Delivery } from "./delivery.js";
import { reachOf } from "./outgoing.js";
import type { Sender } from "./sender.js";
import { none, type Settling, settleDead, settleWithoutCall } from "./settling.js";

/** Maximum notes and packets of an execution that a recovery reads. */
const rowsMax = 1000;

export interface RecoveryPorts {
  readonly store: Store;
  readonly sender: Sender;
  readonly crashMax: number;
}

/**
 * A worker died while it had this packet. Returns a settling if the edge's `recovery` replaces the delivery; undefined: the
 * packet is delivered again. A packet that killed more than `crashMax` workers that had no other packet becomes a dead letter;
 * so does a packet of an execution that was restarted `crashMax` times, where it would be restarted once more.
 */
export async function recover(delivery: Delivery, ports: RecoveryPorts): Promise<Settling | undefined> {
  const { route, packet } = delivery;
  const { strategy = "replayFromCheckpoint", replayFrom } = route.delivery.recovery ?? {};
  const { died } = trialOf(packet);
  const crashed = (message: string) => settleCrashed(delivery, message, ports.sender);
  if (died > ports.crashMax) return crashed(`its worker died ${died} times while it delivered no other packet`);
  switch (strategy) {
    case "fail":
      return crashed("a worker died while it had the packet, and the recovery strategy of the edge is fail");
    case "skip":
      return settleWithoutCall("skipped", none);
    case "replayFromCheckpoint":
      // The default, without `replayFrom`: the packet itself is its checkpoint, and is delivered again.
      return replayFrom === undefined ? undefined : await replay(delivery, replayFrom, ports);
    case "replayFromEntrypoint":
      return await replay(delivery, undefined, ports);
  }
}

/** Replaces the packet by an earlier one of its execution: the packet that entered the flow, or one that was kept before `node`. */
async function replay(delivery: Delivery, node: string | undefined, ports: RecoveryPorts): Promise<Settling | undefined> {
  const { store, sender, crashMax } = ports;
  const { route, packet } = delivery;
  const { packets } = store;
  // A store that cannot be read is not a failure of the node: it must not use up an attempt.
  const read = <T>(reading: () => Promise<T>) => afterEffect(store, reading, { what: `the recovery of packet ${packetId(packet.no)}` });
  const execution = packet.execution === null ? undefined : await read(() => packets.execution(packet.execution as number));
  if (execution === undefined) return undefined;
  const restarts = (await read(() => packets.notes(execution.no, rowsMax))).filter(({ kind }) => kind === "restarted").length;
  if (restarts >= crashMax) return settleCrashed(delivery, `its execution was restarted ${restarts} times`, sender);
  const kept =
    node === undefined
      ? undefined
      : (await read(() => packets.packetsOf(execution.no, rowsMax))).find((row) => row.state === "kept" && leadsTo(route, row.queue, node));
  if (node !== undefined && kept === undefined) return undefined;
  const from = node ?? entryNode(route, execution.entry);
  if (from === undefined || keysBetween(route, from)) return undefined;
  const queue = kept?.queue ?? execution.entry;
  const again: NewPacket = {
    no: sender.next(),
    flow: route.flow.id,
    queue,
    execution: execution.no,
    payload: kept?.payload ?? execution.input,
    // The key of the earlier packet, if it had one, is completed: with it the new packet would be acknowledged, not delivered.
    key: null,
    lane: null,
    join: null,
    letter: route.letter,
    delayMs: 0,
    claim: false,
    ...reachOf(route, queue),
  };
  return settleWithoutCall("restarted", [again]);
}

function entryNode({ flow }: Route, entry: string): string | undefined {
  return flow.entries.find(({ node, port }) => entry === `->${node}.${port}`)?.node;
}

/** A keyed edge between `from` and here has completed its key, which would acknowledge the replayed packet: no replay then. */
function keysBetween({ flow, queue }: Route, from: string): boolean {
  const seen = new Set<string>();
  const next = [from];
  for (let id = next.pop(); id !== undefined; id = next.pop()) {
    if (seen.has(id)) continue;
    seen.add(id);
    for (const edge of flow.nodes.get(id)?.outgoing ?? []) {
      if (edge.id === queue) continue;
      if (edge.delivery.key !== undefined) return true;
      next.push(edge.to.node);
    }
  }
  return false;
}

function leadsTo({ flow }: Route, queue: string, node: string): boolean {
  return flow.edges.some(({ id, to }) => id === queue && to.node === node) || queue.startsWith(`->${node}.`);
}

function settleCrashed(delivery: Delivery, message: string, sender: Sender): Settling {
  const failure = { code: "CRASHED", message, final: true };
  const { history, attempt } = delivery.packet;
  return settleDead(delivery, failure, withFailure(history, failure, { attempt, at: Date.now(), ms: 0 }), sender);
}
