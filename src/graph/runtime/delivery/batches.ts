import type { PacketRecord } from "../../../core/packets/packet.js";
import type { Clock } from "../../../core/work/clock.js";
import { BaseNode } from "../../node/node.js";
import type { Route } from "../flows/route.js";
import { BatchCall } from "./batch.js";
import { Gather } from "./gather.js";

/** One of several packets that share a call of their node. */
export interface BatchMember {
  readonly call: BatchCall;
  /** Resolves when the call may begin. */
  readonly turn: Promise<void>;
}

/** What batches need from their worker. */
interface BatchPorts {
  /** Begins the delivery of one packet. Resolves when the delivery has ended. */
  begin(route: Route, packet: PacketRecord, member?: BatchMember): Promise<void>;
  /** How many packets of the route may run at once. */
  togetherMax(route: Route): number;
  /** Runs `work` within the limits of edge and node, counted as `packets` packets. */
  pass(route: Route, work: () => Promise<void>, packets: number): Promise<void>;
}

/** Edges that deliver in batches: their packets wait here for each other. */
export class Batches {
  readonly #clock: Clock;
  readonly #ports: BatchPorts;
  readonly #gathering = new Map<Route, Gather<PacketRecord>>();

  constructor(clock: Clock, ports: BatchPorts) {
    this.#clock = clock;
    this.#ports = ports;
  }

  get waiting(): boolean {
    return [...this.#gathering.values()].some(({ waiting }) => waiting > 0);
  }

  add(route: Route, packet: PacketRecord): void {
    const { size, waitMs } = route.delivery.batch;
    let gather = this.#gathering.get(route);
    if (gather === undefined) {
      gather = new Gather(this.#clock, size, waitMs, (packets: readonly PacketRecord[]) => void this.deliver(route, packets));
      this.#gathering.set(route, gather);
    }
    gather.add(packet);
  }

  flush(): void {
    for (const gather of this.#gathering.values()) gather.flush();
  }

  /** One call for all of them, or several if the limits of edge and node are lower. Resolves when all deliveries have ended. */
  async deliver(route: Route, packets: readonly PacketRecord[]): Promise<void> {
    const { work } = route.node;
    if (!(work instanceof BaseNode && work.handleBatch)) {
      await Promise.all(packets.map((packet) => this.#ports.begin(route, packet)));
      return;
    }
    const most = Math.min(packets.length, this.#ports.togetherMax(route));
    const calls: Promise<void>[] = [];
    for (let i = 0; i < packets.length; i += most) calls.push(this.#deliverTogether(route, work, packets.slice(i, i + most)));
    await Promise.all(calls);
  }

  /** The packets of one call pass the gate together: two calls that held half of its places each would wait without end. */
  #deliverTogether(route: Route, work: BaseNode, packets: readonly PacketRecord[]): Promise<void> {
    let begin = (): void => {};
    const turn = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const call = new BatchCall(work, packets.length);
    const deliveries = packets.map((packet) => this.#ports.begin(route, packet, { call, turn }));
    const together = async (): Promise<void> => {
      begin();
      await Promise.all(deliveries);
    };
    return this.#ports.pass(route, together, packets.length);
  }
}
