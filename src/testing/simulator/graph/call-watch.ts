import { isAlone } from "../../../core/packets/worker/trial.js";
import type { NodeContext } from "../../../graph/node/node.js";
import type { FlowPlan } from "../../../graph/plan/plan.js";
import { packetNo } from "../../../graph/runtime/views/ids.js";
import type { MemoryTable } from "../../../stores/shared/memory-table.js";
import { PromiseBroken } from "../observer.js";
import type { SimulatedProcess, World } from "../world.js";
import type { PacketObserver } from "./packet-observer.js";

/** A node call that has started and not ended. */
export interface Call {
  readonly packet: number;
  readonly name: string;
  readonly key: string | undefined;
  readonly process: SimulatedProcess;
  readonly worker: number;
  readonly node: string;
  /** When the runtime stops waiting for the call (timeout and grace). From then on the next attempt may overlap with it. */
  readonly abandonedAt: number;
}

interface Limits {
  readonly node: number;
  readonly allowedMs: number;
}

/** Checks node calls inside the nodes, independently of what the runtime believes. */
export class CallWatch {
  readonly #world: World;
  readonly #plan: FlowPlan;
  readonly #table: MemoryTable;
  readonly #observer: PacketObserver;
  readonly #open = new Set<Call>();
  readonly #started = new Set<string>();
  /** When each attempt of a packet started. All nodes of one stage share the timeout of the attempt. */
  readonly #startedAt = new Map<string, number>();
  calls = 0;

  constructor(world: World, plan: FlowPlan, table: MemoryTable, observer: PacketObserver) {
    this.#plan = plan;
    this.#world = world;
    this.#table = table;
    this.#observer = observer;
  }

  begin(process: SimulatedProcess, { packetId, nodeId, attempt, idempotencyKey: key }: NodeContext, limits: Limits): Call {
    const number = packetNo(packetId);
    const packet = this.#observer.book.packets.get(number);
    const name = `${nodeId} with ${packet?.name ?? packetId} attempt ${attempt}`;
    const call: Call = {
      packet: number,
      name,
      key,
      process,
      worker: packet?.owner ?? 0,
      node: nodeId,
      abandonedAt: this.#abandonedAt(`${number} ${attempt}`, limits),
    };
    // A direct call has no packet in the store: its key is for providers only, and it does not count against limits.
    const isDirect = this.#plan.edges.some(({ to, delivery }) => to.node === nodeId && delivery.mode === "direct") && key !== packet?.key;
    this.calls += 1;
    this.#observer.note(() => `p${process.id} calls ${name}`);
    this.#observer.guard(() => {
      const row = this.#table.packet(number);
      if (row?.owner !== call.worker || row.attempt !== attempt || !this.#observer.isLive(call.worker))
        throw new PromiseBroken(`${name}: p${process.id} calls the node with a packet that it no longer owns`);
      const id = `${number} ${nodeId} ${attempt}`;
      if (this.#started.has(id)) throw new PromiseBroken(`${name}: called twice`);
      this.#started.add(id);
      if (isDirect) return;
      this.#mustHoldKey(call);
      this.#mustIsolateSuspects(call);
      this.#mustBeWithinLimits(call, limits);
    });
    if (!isDirect) this.#open.add(call);
    return call;
  }

  #abandonedAt(attempt: string, { allowedMs }: Limits): number {
    const at = this.#startedAt.get(attempt) ?? this.#world.now();
    this.#startedAt.set(attempt, at);
    return at + allowedMs;
  }

  end(call: Call): void {
    this.#open.delete(call);
    this.#observer.note(() => `p${call.process.id} ends ${call.name}`);
  }

  /** While a suspect packet is delivered, its process handles no other packet. */
  #mustIsolateSuspects({ packet, name, process }: Call): void {
    const mustBeAlone = (number: number) => {
      const row = this.#table.packet(number);
      return row !== undefined && isAlone(row);
    };
    for (const other of this.#open) {
      if (other.process !== process || other.packet === packet || other.abandonedAt <= this.#world.now()) continue;
      if (mustBeAlone(packet) || mustBeAlone(other.packet))
        throw new PromiseBroken(`${name}: called in parallel with ${other.name}, although one of them is a suspect`);
    }
  }

  /** No second call with the same key while the owner of the first call is alive and its runtime still waits for it. */
  #mustHoldKey({ name, key, node }: Call): void {
    for (const other of this.#open) {
      if (key === undefined || other.key !== key || other.node !== node || other.process.dead) continue;
      if (this.#world.now() >= other.abandonedAt || !this.#observer.isLive(other.worker)) continue;
      throw new PromiseBroken(`${name}: started while ${other.name} still works on key ${key}`);
    }
  }

  #mustBeWithinLimits({ name, process, node }: Call, { node: perNode }: Limits): void {
    const here = [...this.#open].filter((other) => other.process === process && this.#world.now() < other.abandonedAt);
    const live = here.filter(({ worker }) => this.#observer.isLive(worker));
    const same = live.filter((other) => other.node === node).length;
    if (same >= perNode) throw new PromiseBroken(`${name}: p${process.id} already runs ${same} calls of ${node}; the limit is ${perNode}`);
  }
}
