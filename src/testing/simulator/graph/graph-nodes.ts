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

/** The nodes of one process. Each takes some time, has one effect, and may throw, hang, or ignore its abort signal. */
export function nodesFor(scene: NodeWorld, process: SimulatedProcess, die: (why: string) => void): BaseNode[] {
  return [...scene.plan.flow.nodes.values()].map((node) => new SimulatedNode(scene, process, node, die));
}

class SimulatedNode extends BaseNode {
  readonly operationId: string;
  readonly #scene: NodeWorld;
  readonly #process: SimulatedProcess;
  readonly #plan: PlannedNode;
  readonly #die: (why: string) => void;

  constructor(scene: NodeWorld, process: SimulatedProcess, plan: PlannedNode, die: (why: string) => void) {
    super();
    this.operationId = plan.operationId;
    this.#scene = scene;
    this.#process = process;
    this.#plan = plan;
    this.#die = die;
  }

  override async handle(input: NodeInput): Promise<NodeOutput> {
    const { plan, watch } = this.#scene;
    const { id, execution } = this.#plan;
    // The shortest timeout of all edges: a node does not know by which edge its packet arrived.
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
    const { world, plan, effects, observer } = this.#scene;
    const { bodies } = plan;
    const { nodeId, packetId, executionId, idempotencyKey, attempt, signal } = input.context;
    const { random } = world;
    const data = input.packet(input.ports[0] as string).data as { readonly id: string };
    const hangs = random.chance(bodies.hang);
    const ms = hangs ? plan.timeoutMs * random.between(1, 4) : random.between(0, bodies.msMax);
    const obeysAbort = !random.chance(bodies.ignoresAbort);
    const wait = (part: number) => sleep(this.#process.clock, ms * part, obeysAbort ? signal : undefined);
    observer.guard(() => {
      const strangers = input.ports.filter((port) => (input.packet(port).data["ex"] ?? executionId) !== executionId);
      if (strangers.length > 0) throw new PromiseBroken(`${nodeId}: a join mixed parts of two executions`);
      const missing = this.#plan.inputs.filter(({ name, required }) => required !== false && !input.has(name));
      if (missing.length > 0)
        throw new PromiseBroken(`${nodeId}: a join was called without the ports ${missing.map(({ name }) => name).join()}`);
    });
    await wait(0.5);
    if (bodies.kills.has(`${nodeId}:${data.id}`)) {
      this.#die(`in ${nodeId} with ${data.id}`);
      await never();
    }
    if (bodies.poison.has(`${nodeId}:${data.id}`)) throw new NodeError("PERMANENT", "poison");
    if (random.chance(bodies.throwBefore)) throw this.#error();
    effects.call(`${nodeId} ${idempotencyKey ?? packetId}`, { attempt, result: null });
    await wait(0.5);
    if (random.chance(bodies.throwAfter)) throw this.#error();
  }

  #error(): Error {
    const { world, plan } = this.#scene;
    return world.random.chance(plan.bodies.fatal) ? new NodeError("PERMANENT", "simulated") : new Error("simulated");
  }

  /** Packets that will be joined carry their execution id, so that the join can check it. */
  #output(id: string, input: NodeInput): NodeOutput {
    const { data } = input.packet(input.ports[0] as string);
    const joins = this.#plan.outgoing.some(({ to }) => to.port !== "in");
    const output = new NodeOutput();
    return id === "j" && this.#plan.outgoing.length === 0
      ? output
      : output.send("out", joins ? { ...data, ex: input.context.executionId } : data);
  }
}
