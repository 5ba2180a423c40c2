import type { PacketRecord } from "../../core/packet.js";
import type { NewPacket, PacketOutcome } from "../../core/packet-operation.js";
import { untilAnswered } from "../../core/save.js";
import { alertFor } from "./alert.js";
import type { DeliveryHost } from "./delivery.js";
import type { Failure } from "./failure.js";
import { withFailure } from "./history.js";
import { noTrace } from "./payload.js";
import type { Route } from "./routes.js";

interface Recovered {
  readonly to: PacketOutcome;
  readonly packets: readonly NewPacket[];
  readonly failure?: Failure;
}

/** Notes of an execution that are looked through. */
const notesMax = 1000;

/**
 * A worker died over this packet. Delivered again, unless its edge says otherwise; undefined means that.
 * A packet that kills whoever has it ends as a dead letter.
 */
export async function recover(host: DeliveryHost, route: Route, packet: PacketRecord): Promise<Recovered | undefined> {
  const { strategy = "replayFromCheckpoint", replayFrom } = route.delivery.recovery ?? {};
  const dead = (message: string): Recovered => deadLetter(host, route, packet, message);
  if (packet.crashes > host.crashMax) return dead(`workers fell silent over it ${packet.crashes} times`);
  switch (strategy) {
    case "fail":
      return dead("a worker fell silent over it, and its edge says: fail");
    case "skip":
      return { to: { kind: "done", keep: false, note: "skipped" }, packets: [] };
    case "replayFromCheckpoint":
      return replayFrom === undefined ? undefined : await replay(host, route, packet, replayFrom);
    case "replayFromEntrypoint":
      return await replay(host, route, packet, undefined);
  }
}

/** The packet goes, and one from further back comes in its place: what entered the flow, or what was kept before a node. */
async function replay(host: DeliveryHost, route: Route, packet: PacketRecord, node: string | undefined): Promise<Recovered | undefined> {
  const { store } = host;
  const { packets } = store;
  // A store that cannot be read is no failure of the node.
  const read = <T>(reading: () => Promise<T>) => untilAnswered(store, reading, Number.POSITIVE_INFINITY);
  const execution = packet.execution === null ? undefined : await read(() => packets.execution(packet.execution as number));
  if (execution === undefined) return undefined;
  const restarts = (await read(() => packets.notes(execution.no, notesMax))).filter(({ kind }) => kind === "restarted").length;
  if (restarts >= host.crashMax) return deadLetter(host, route, packet, `its execution was started again ${restarts} times`);
  const kept =
    node === undefined
      ? undefined
      : (await read(() => packets.packetsOf(execution.no, notesMax))).find(
          (row) => row.state === "kept" && leadsTo(route, row.queue, node),
        );
  if (node !== undefined && kept === undefined) return undefined;
  const from = node ?? entryNode(route, execution.entry);
  if (from === undefined || keysBetween(route, from)) return undefined;
  const { next } = host.senderOf(execution.no, noTrace);
  const again: NewPacket = {
    no: next(),
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
  return { to: { kind: "done", keep: false, note: "restarted" }, packets: [again] };
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

function deadLetter(host: DeliveryHost, route: Route, packet: PacketRecord, message: string): Recovered {
  const failure: Failure = { code: "CRASHED", message, final: true };
  const history = withFailure(packet.history, failure, { attempt: packet.attempt, at: Date.now(), ms: 0 });
  return { to: { kind: "dead", history }, packets: alertFor(host.senderOf(null, noTrace), route, packet, failure), failure };
}
