import type { NewPacket } from "../../../core/packets/operation.js";
import { trialOf } from "../../../core/packets/worker/trial.js";
import { afterEffect } from "../../../core/work/until-answered.js";
import type { Route } from "../flows/routes.js";
import { withFailure } from "../views/history.js";
import { packetId } from "../views/ids.js";
import { type Delivery, dead, nothing, type Settling } from "./delivery.js";

/** Notes of an execution that are looked through. */
const notesMax = 1000;

/**
 * A worker died over this packet. Delivered again, unless its edge says otherwise; undefined means that.
 * A packet that kills whoever has it ends as a dead letter.
 */
export async function recover(delivery: Delivery): Promise<Settling | undefined> {
  const { host, route, packet } = delivery;
  const { strategy = "replayFromCheckpoint", replayFrom } = route.delivery.recovery ?? {};
  const { died } = trialOf(packet);
  if (died > host.crashMax) return crashed(delivery, `its worker died ${died} times while it delivered no other packet`);
  switch (strategy) {
    case "fail":
      return crashed(delivery, "a worker fell silent over it, and its edge says: fail");
    case "skip":
      return instead("skipped", nothing);
    case "replayFromCheckpoint":
      return replayFrom === undefined ? undefined : await replay(delivery, replayFrom);
    case "replayFromEntrypoint":
      return await replay(delivery, undefined);
  }
}

function instead(note: "skipped" | "restarted", packets: readonly NewPacket[]): Settling {
  return { to: { kind: "done", keep: false, note }, packets, outputs: nothing, ephemeral: nothing, failure: undefined };
}

/** The packet goes, and one from further back comes in its place: what entered the flow, or what was kept before a node. */
async function replay(delivery: Delivery, node: string | undefined): Promise<Settling | undefined> {
  const { host, route, packet } = delivery;
  const { store } = host;
  const { packets } = store;
  // A store that cannot be read is no failure of the node.
  const read = <T>(reading: () => Promise<T>) => afterEffect(store, reading, { what: `how packet ${packetId(packet.no)} goes on` });
  const execution = packet.execution === null ? undefined : await read(() => packets.execution(packet.execution as number));
  if (execution === undefined) return undefined;
  const restarts = (await read(() => packets.notes(execution.no, notesMax))).filter(({ kind }) => kind === "restarted").length;
  if (restarts >= host.crashMax) return crashed(delivery, `its execution was started again ${restarts} times`);
  const kept =
    node === undefined
      ? undefined
      : (await read(() => packets.packetsOf(execution.no, notesMax))).find(
          (row) => row.state === "kept" && leadsTo(route, row.queue, node),
        );
  if (node !== undefined && kept === undefined) return undefined;
  const from = node ?? entryNode(route, execution.entry);
  if (from === undefined || keysBetween(route, from)) return undefined;
  const again: NewPacket = {
    no: host.sender.next(),
    flow: route.flow.id,
    queue: kept?.queue ?? execution.entry,
    execution: execution.no,
    payload: kept?.payload ?? execution.input,
    // Its key, if it had one, is completed: with it the packet would be acknowledged instead of delivered.
    key: null,
    lane: null,
    join: null,
    letter: route.letter,
    delayMs: 0,
    claim: false,
  };
  return instead("restarted", [again]);
}

function entryNode({ flow }: Route, entry: string): string | undefined {
  return flow.entries.find(({ node, port }) => entry === `->${node}.${port}`)?.node;
}

/** On the way from there to here a completed key would stop what is sent again: so it is delivered from here. */
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

function crashed(delivery: Delivery, message: string): Settling {
  const failure = { code: "CRASHED", message, final: true };
  const { history, attempt } = delivery.packet;
  return dead(delivery, failure, withFailure(history, failure, { attempt, at: Date.now(), ms: 0 }));
}
