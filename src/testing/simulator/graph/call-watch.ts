import { isAlone } from "../../../core/packets/worker/trial.js";
import type { NodeContext } from "../../../graph/node/node.js";
import type { FlowPlan } from "../../../graph/plan/plan.js";
import { packetNo } from "../../../graph/runtime/views/ids.js";
import type { MemoryTable } from "../../../stores/shared/memory-table.js";
import { PromiseBroken } from "../observer.js";
import type { SimulatedProcess, World } from "../world.js";
import type { PacketObserver } from "./packet-observer.js";

/** A call of a node that has begun and not ended. */
export interface Call {
  readonly no: number;
  readonly name: string;
  readonly key: string | undefined;
  readonly process: SimulatedProcess;
  readonly worker: number;
  readonly node: string;
  /** When its runtime stops waiting for it: from then on the next attempt may overlap with it. */
  readonly overAt: number;
}

interface Limits {
  readonly node: number;
  readonly allowedMs: number;
}

/** Watches the calls of nodes where they happen: at the other side of the runtime. */
export class CallWatch {
  readonly #world: World;
  readonly #plan: FlowPlan;
  readonly #table: MemoryTable;
  readonly #observer: PacketObserver;
  readonly #open = new Set<Call>();
  readonly #begun = new Set<string>();
  /** When a packet's attempt began: the time of a stage is that of all its nodes. */
  readonly #begunAt = new Map<string, number>();
  calls = 0;

  constructor(world: World, plan: FlowPlan, table: MemoryTable, observer: PacketObserver) {
    this.#plan = plan;
    this.#world = world;
    this.#table = table;
    this.#observer = observer;
  }

  begin(process: SimulatedProcess, { packetId, nodeId, attempt, idempotencyKey: key }: NodeContext, limits: Limits): Call {
    const no = packetNo(packetId);
    const packet = this.#observer.book.packets.get(no);
    const name = `${nodeId} with ${packet?.name ?? packetId} attempt ${attempt}`;
    const call: Call = {
      no,
      name,
      key,
      process,
      worker: packet?.owner ?? 0,
      node: nodeId,
      overAt: this.#overAt(`${no} ${attempt}`, limits),
    };
    // Nothing is kept of a direct call: its key is for providers only, and it takes no place.
    const isDirect = this.#plan.edges.some(({ to, delivery }) => to.node === nodeId && delivery.mode === "direct") && key !== packet?.key;
    this.calls += 1;
    this.#observer.note(() => `p${process.id} calls ${name}`);
    this.#observer.guard(() => {
      const row = this.#table.packet(no);
      if (row?.owner !== call.worker || row.attempt !== attempt || !this.#observer.isLive(call.worker))
        throw new PromiseBroken(`${name}: p${process.id} calls with a packet that is not its own any more`);
      const once = `${no} ${nodeId} ${attempt}`;
      if (this.#begun.has(once)) throw new PromiseBroken(`${name}: called twice`);
      this.#begun.add(once);
      if (isDirect) return;
      this.#alone(call);
      this.#besideNoSuspect(call);
      this.#withinLimits(call, limits);
    });
    if (!isDirect) this.#open.add(call);
    return call;
  }

  #overAt(attempt: string, { allowedMs }: Limits): number {
    const at = this.#begunAt.get(attempt) ?? this.#world.now();
    this.#begunAt.set(attempt, at);
    return at + allowedMs;
  }

  end(call: Call): void {
    this.#open.delete(call);
    this.#observer.note(() => `p${call.process.id} ends ${call.name}`);
  }

  /** A packet that is delivered by itself has nothing beside it in its process. */
  #besideNoSuspect({ no, name, process }: Call): void {
    const byItself = (packet: number) => {
      const row = this.#table.packet(packet);
      return row !== undefined && isAlone(row);
    };
    for (const other of this.#open) {
      if (other.process !== process || other.no === no || other.overAt <= this.#world.now()) continue;
      if (byItself(no) || byItself(other.no)) throw new PromiseBroken(`${name}: called beside ${other.name}, and one of them is a suspect`);
    }
  }

  /** No second call under a key while the holder of the first lives, and is waited for. */
  #alone({ name, key, node }: Call): void {
    for (const other of this.#open) {
      if (key === undefined || other.key !== key || other.node !== node || other.process.dead) continue;
      if (this.#world.now() >= other.overAt || !this.#observer.isLive(other.worker)) continue;
      throw new PromiseBroken(`${name}: begins while ${other.name} is still at ${key}`);
    }
  }

  #withinLimits({ name, process, node }: Call, { node: perNode }: Limits): void {
    const here = [...this.#open].filter((other) => other.process === process && this.#world.now() < other.overAt);
    const lives = here.filter(({ worker }) => this.#observer.isLive(worker));
    const same = lives.filter((other) => other.node === node).length;
    if (same >= perNode) throw new PromiseBroken(`${name}: p${process.id} has ${same} calls of ${node} already, of ${perNode}`);
  }
}
