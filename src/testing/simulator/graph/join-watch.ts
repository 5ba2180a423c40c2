import type { FlowPlan } from "../../../graph/plan/plan.js";
import type { MemoryTable } from "../../../stores/shared/memory-table.js";
import { PromiseBroken } from "../observer.js";
import type { KnownPacket, PacketBook } from "./packet-book.js";

/** A port of a node: `node.port`. */
type PortName = string;

/**
 * Checks how joins are decided, on the observer's model and the edges of the flow, without code of the store: a join is delivered or
 * skipped only if its empty ports cannot be filled any more, and does not wait once that is so.
 */
export class JoinWatch {
  readonly #flow: FlowPlan;
  readonly #book: PacketBook;
  readonly #table: MemoryTable;
  /** By node: the ports behind its outputs. */
  readonly #behind = new Map<string, ReadonlySet<PortName>>();

  constructor(flow: FlowPlan, book: PacketBook, table: MemoryTable) {
    this.#flow = flow;
    this.#book = book;
    this.#table = table;
  }

  /** The store has made this part due, alone or with other parts. */
  released(no: number, packet: KnownPacket): void {
    const row = this.#table.packet(no);
    const { join } = packet.sent;
    if (row === undefined || join === null) throw new PromiseBroken(`${packet.name}: released, but it is not in the store`);
    const filled = [join.port, ...Object.keys(row.parts ?? {})];
    for (const port of join.ports.filter((name) => !filled.includes(name))) {
      if (!this.#isOptional(join.node, port)) throw new PromiseBroken(`${packet.name}: delivered without port ${port}, which is required`);
      this.#mustBeUnfillable(packet, port);
    }
    packet.part = false;
    packet.key = row.key?.key ?? null;
    for (const other of Object.values(row.parts ?? {})) this.#book.end(this.#book.of(other.no), "joined");
  }

  /** The store has removed this part. */
  skipped(packet: KnownPacket): void {
    const { join } = packet.sent;
    const empty = (join?.ports ?? []).filter((port) => !this.#isOptional(join?.node ?? "", port) && port !== join?.port);
    if (!empty.some((port) => !this.#hasPart(packet, port) && this.#fillers(packet, port).length === 0))
      throw new PromiseBroken(`${packet.name}: skipped, but every port that its node needs can still be filled`);
    this.#book.end(packet, "closed");
  }

  /** An operator's request changed parts, which its answer does not mention. */
  changedByOperator(): void {
    for (let more = true; more; ) {
      const changed = [...this.#book.packets].filter(
        ([no, packet]) => packet.part && packet.fate === undefined && this.#table.packet(no)?.state !== "part",
      );
      // The outcome of one join may decide the next join.
      const next = changed.find(([, packet]) => !this.#waitsBehind(packet, changed)) ?? changed[0];
      more = next !== undefined;
      if (next === undefined) return;
      if (this.#table.packet(next[0]) === undefined) this.skipped(next[1]);
      else this.released(next[0], next[1]);
    }
  }

  /** No part waits for ports that cannot be filled. */
  nothingWaitsInVain(): void {
    for (const packet of this.#book.packets.values()) {
      const { join } = packet.sent;
      if (!packet.part || packet.fate !== undefined || join === null) continue;
      const empty = join.ports.filter((port) => port !== join.port && !this.#hasPart(packet, port));
      const closed = empty.filter((port) => this.#fillers(packet, port).length === 0);
      if (closed.some((port) => !this.#isOptional(join.node, port)) || (closed.length > 0 && closed.length === empty.length))
        throw new PromiseBroken(`${packet.name}: waits for ${closed.join(", ")}, which no packet can fill`);
    }
  }

  #mustBeUnfillable(packet: KnownPacket, port: string): void {
    const [filler] = this.#fillers(packet, port);
    if (filler !== undefined) throw new PromiseBroken(`${packet.name}: delivered without port ${port}, which ${filler.name} may fill`);
  }

  #isOptional(node: string, port: string): boolean {
    return this.#flow.nodes.get(node)?.inputs.find(({ name }) => name === port)?.required === false;
  }

  #hasPart({ sent: { execution, join } }: KnownPacket, port: string): boolean {
    return [...this.#book.packets.values()].some(
      ({ part, fate, sent }) =>
        part && fate === undefined && sent.execution === execution && sent.join?.node === join?.node && sent.join?.port === port,
    );
  }

  /** Packets of the execution that may still fill a port of the packet's node: open, waiting or dead letters. */
  #fillers({ sent: { execution, join } }: KnownPacket, port: string): KnownPacket[] {
    const name = `${join?.node}.${port}`;
    return [...this.#book.packets.values()].filter(
      (other) =>
        other.sent.execution === execution && (other.fate === undefined || other.fate === "dead") && this.#reachOf(other).has(name),
    );
  }

  #waitsBehind({ sent: { execution, join } }: KnownPacket, changed: readonly (readonly [number, KnownPacket])[]): boolean {
    const before = changed.filter(([, { sent }]) => sent.execution === execution && sent.join?.node !== join?.node);
    return before.some(([, other]) => join?.ports.some((port) => this.#reachOf(other).has(`${join.node}.${port}`)));
  }

  /** A part that is a dead letter fills its own port again when it is retried. */
  #reachOf({ sent: { queue, join }, part }: KnownPacket): ReadonlySet<PortName> {
    const behind = this.#behindNode(this.#targetOf(queue));
    return part && join !== null ? new Set([...behind, `${join.node}.${join.port}`]) : behind;
  }

  #targetOf(queue: string): string {
    return this.#flow.edges.find(({ id }) => id === queue)?.to.node ?? queue.slice(2, queue.lastIndexOf("."));
  }

  #behindNode(id: string): ReadonlySet<PortName> {
    const known = this.#behind.get(id);
    if (known !== undefined) return known;
    const behind = new Set<PortName>();
    for (const { to } of this.#flow.nodes.get(id)?.outgoing ?? []) {
      behind.add(`${to.node}.${to.port}`);
      for (const port of this.#behindNode(to.node)) behind.add(port);
    }
    this.#behind.set(id, behind);
    return behind;
  }
}
