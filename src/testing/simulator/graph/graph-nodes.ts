import { sleep } from "../../../core/work/clock.js";
import { BaseNode, type NodeInput, NodeOutput } from "../../../graph/node/node.js";
import { NodeError } from "../../../graph/node/node-error.js";
import type { PlannedNode } from "../../../graph/plan/plan.js";
import type { EffectLedger } from "../../effect-ledger.js";
import { PromiseBroken } from "../observer.js";
import { never, type SimulatedProcess, type World } from "../world.js";
import type { CallWatch } from "./call-watch.js";
import type { GraphPlan } from "./graph-plan.js";
import type { PacketObserver } from "./packet-observer.js";

export interface NodeWorld {
  readonly world: World;
  readonly plan: GraphPlan;
  readonly watch: CallWatch;
  readonly effects: EffectLedger;
  readonly observer: PacketObserver;
}

/** The nodes of one process. Each takes a while, has an effect, and may throw, hang, or not listen. */
export function nodesFor(around: NodeWorld, process: SimulatedProcess, die: (why: string) => void): BaseNode[] {
  return [...around.plan.flow.nodes.values()].map((node) => new SimulatedNode(around, process, node, die));
}

class SimulatedNode extends BaseNode {
  readonly operationId: string;
  readonly #around: NodeWorld;
  readonly #process: SimulatedProcess;
  readonly #plan: PlannedNode;
  readonly #die: (why: string) => void;

  constructor(around: NodeWorld, process: SimulatedProcess, plan: PlannedNode, die: (why: string) => void) {
    super();
    this.operationId = plan.operationId;
    this.#around = around;
    this.#process = process;
    this.#plan = plan;
    this.#die = die;
  }

  override async handle(input: NodeInput): Promise<NodeOutput> {
    const { plan, watch } = this.#around;
    const { id, execution } = this.#plan;
    // The shortest of all: by which edge it came is not told.
    const timeouts = plan.flow.edges.map(({ delivery }) => delivery.timeoutMs ?? plan.timeoutMs);
    const allowedMs = Math.min(plan.timeoutMs, ...timeouts) + plan.graceMs;
    const limits = { node: execution.concurrency ?? Number.POSITIVE_INFINITY, allowedMs };
    const call = watch.begin(this.#process, input.context, limits);
    try {
      await this.#work(input);
      return this.#output(id, input);
    } finally {
      watch.end(call);
    }
  }

  override async handleBatch(inputs: readonly NodeInput[]): Promise<readonly (NodeOutput | Error)[]> {
    return await Promise.all(inputs.map((input) => this.handle(input).catch((error: Error) => error)));
  }

  async #work(input: NodeInput): Promise<void> {
    const { world, plan, effects, observer } = this.#around;
    const { bodies } = plan;
    const { nodeId, packetId, executionId, idempotencyKey, attempt, signal } = input.context;
    const { random } = world;
    const data = input.packet(input.ports[0] as string).data as { readonly id: string };
    const hangs = random.chance(bodies.hang);
    const ms = hangs ? plan.timeoutMs * random.between(1, 4) : random.between(0, bodies.msMax);
    const listens = !random.chance(bodies.deaf);
    const wait = (part: number) => sleep(this.#process.clock, ms * part, listens ? signal : undefined);
    observer.guard(() => {
      const strangers = input.ports.filter((port) => (input.packet(port).data["ex"] ?? executionId) !== executionId);
      if (strangers.length > 0) throw new PromiseBroken(`${nodeId}: joined parts of two executions`);
      if (nodeId === "j" && input.ports.length !== 2) throw new PromiseBroken(`${nodeId}: called with ports ${input.ports.join()}`);
    });
    await wait(0.5);
    if (bodies.kills.has(`${nodeId}:${data.id}`)) {
      this.#die(`by ${nodeId} with ${data.id}`);
      await never();
    }
    if (bodies.poison.has(`${nodeId}:${data.id}`)) throw new NodeError("PERMANENT", "poison");
    if (random.chance(bodies.throwBefore)) throw this.#error();
    effects.call(`${nodeId} ${idempotencyKey ?? packetId}`, { attempt, result: null });
    await wait(0.5);
    if (random.chance(bodies.throwAfter)) throw this.#error();
  }

  #error(): Error {
    const { world, plan } = this.#around;
    return world.random.chance(plan.bodies.fatal) ? new NodeError("PERMANENT", "simulated") : new Error("simulated");
  }

  /** What is to be joined says whose it is. */
  #output(id: string, input: NodeInput): NodeOutput {
    const { data } = input.packet(input.ports[0] as string);
    const joins = this.#plan.outgoing.some(({ to }) => to.node === "j");
    const output = new NodeOutput();
    return id === "j" ? output : output.send("out", joins ? { ...data, ex: input.context.executionId } : data);
  }
}
