import type { PacketRecord } from "../../../core/packets/packet.js";
import type { Clock } from "../../../core/work/clock.js";
import { BaseNode } from "../../node/node.js";
import type { Route } from "../flows/routes.js";
import type { Capacity } from "../worker/capacity.js";
import { BatchCall } from "./batch.js";
import { Gather } from "./gather.js";
import type { Payload } from "./payload.js";

/** One packet, or one of several that are called together. `known`: what it brings, where this process has sent it. */
export type Begin = (
  route: Route,
  packet: PacketRecord,
  known?: Payload,
  together?: { readonly call: BatchCall; readonly turn: Promise<void> },
) => Promise<void>;

/** Edges that deliver in batches: packets wait here for each other. */
export class Batches {
  readonly #clock: Clock;
  readonly #capacity: Capacity;
  readonly #begin: Begin;
  readonly #gathering = new Map<Route, Gather<PacketRecord>>();

  constructor(clock: Clock, capacity: Capacity, begin: Begin) {
    this.#clock = clock;
    this.#capacity = capacity;
    this.#begin = begin;
  }

  get waiting(): boolean {
    return [...this.#gathering.values()].some(({ waiting }) => waiting > 0);
  }

  add(route: Route, packet: PacketRecord): void {
    const { size, waitMs } = route.delivery.batch;
    let gather = this.#gathering.get(route);
    if (gather === undefined) {
      gather = new Gather(this.#clock, size, waitMs, (packets: readonly PacketRecord[]) => this.#deliver(route, packets));
      this.#gathering.set(route, gather);
    }
    gather.add(packet);
  }

  /** By itself, as a batch of one. */
  single(route: Route, packet: PacketRecord): void {
    this.#deliver(route, [packet]);
  }

  flush(): void {
    for (const gather of this.#gathering.values()) gather.flush();
  }

  /** Those that are called together go through the gate together; more than it lets in are several calls. */
  #deliver(route: Route, packets: readonly PacketRecord[]): void {
    const { work } = route.node;
    if (!(work instanceof BaseNode && work.handleBatch)) {
      for (const packet of packets) void this.#begin(route, packet);
      return;
    }
    const most = Math.min(packets.length, this.#capacity.togetherMax(route));
    for (let i = 0; i < packets.length; i += most) this.#deliverTogether(route, work, packets.slice(i, i + most));
  }

  #deliverTogether(route: Route, work: BaseNode, packets: readonly PacketRecord[]): void {
    let open = (): void => {};
    const turn = new Promise<void>((resolve) => {
      open = resolve;
    });
    const call = new BatchCall(work, packets.length);
    const all = packets.map((packet) => this.#begin(route, packet, undefined, { call, turn }));
    const together = async (): Promise<void> => {
      open();
      await Promise.all(all);
    };
    void this.#capacity.pass(route, together, packets.length);
  }
}
