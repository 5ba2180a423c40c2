import { loadFlows } from "../../../graph/load/load-flows.js";
import type { FlowPlan } from "../../../graph/plan/plan.js";
import type { Random } from "../random.js";

/** Each simulated world has one flow. */
export const flowId = "simulated";

type Delivery = Record<string, unknown>;

interface Edge {
  readonly from: string;
  readonly to: string;
  readonly when?: string;
  readonly delivery: Delivery;
}

/** The edges of each possible flow; the delivery options are drawn for each edge. `payload.n` is from 0 to 3. */
const shapes: readonly (readonly Omit<Edge, "delivery">[])[] = [
  chain("a", "b"),
  chain("a", "b", "c", "d"),
  [...chain("a", "b", "d"), ...chain("a", "c")],
  [{ from: "a", to: "b", when: "payload.n < 2" }, { from: "a", to: "c", when: "payload.n >= 2" }, ...chain("b", "d"), ...chain("c", "d")],
  [...chain("a", "b"), ...chain("a", "c"), { from: "b", to: "j.left" }, { from: "c", to: "j.right" }],
  [...chain("a", "b"), { from: "a", to: "c", when: "payload.n > 0" }, { from: "b", to: "j.left" }, { from: "c", to: "j.right" }],
];

/** Flows with joins behind conditions and behind each other, and with branches that no join waits for. */
const joinShapes: readonly (readonly Omit<Edge, "delivery">[])[] = [
  [...chain("a", "b"), { from: "a", to: "c", when: "payload.n > 1" }, ...join("j", "b", "c"), ...chain("a", "d")],
  [...chain("a", "b"), { from: "a", to: "c", when: "payload.n > 1" }, ...join("j", "b", "c"), ...join("k", "j", "b")],
  [
    ...chain("a", "b"),
    { from: "a", to: "c", when: "payload.n != 1" },
    { from: "b", to: "d", when: "payload.n < 3" },
    ...join("j", "d", "c"),
    ...chain("j", "e"),
  ],
  [
    ...chain("a", "b"),
    ...chain("a", "c"),
    { from: "b", to: "j.left", when: "payload.n > 0" },
    { from: "c", to: "j.left", when: "payload.n < 2" },
    { from: "c", to: "j.right", when: "payload.n < 3" },
  ],
];

function join(node: string, left: string, right: string): Omit<Edge, "delivery">[] {
  return [
    { from: left, to: `${node}.left` },
    { from: right, to: `${node}.right` },
  ];
}

function chain(...nodes: readonly string[]): Omit<Edge, "delivery">[] {
  return nodes.slice(1).map((to, i) => ({ from: nodes[i] as string, to }));
}

/** Draws a small flow document and loads it. */
export async function flowOf(random: Random, joins: Random, leaseMs: number): Promise<FlowPlan> {
  const usual = random.pick(shapes);
  const hasOptional = joins.chance(0.3);
  const shape = hasOptional && joins.chance(0.7) ? joins.pick(joinShapes) : usual;
  const joined = shape.some(({ to }) => to.startsWith("j."));
  const port = () => (hasOptional && joins.chance(0.5) ? { required: false } : {});
  const edges = shape.map((edge, i): Edge => ({ ...edge, delivery: deliveryOf(random, leaseMs, edge.to, joined || i === 0) }));
  const names = [...new Set(edges.flatMap(({ from, to }) => [from, nodeOf(to)]))];
  const nodes = Object.fromEntries(
    names.map((name) => {
      const concurrency = random.chance(0.3) ? { execution: { concurrency: random.between(1, 2) } } : {};
      const isJoin = edges.some(({ to }) => to === `${name}.left`);
      const inputs = isJoin ? { inputs: { left: port(), right: port() } } : {};
      return [name, { operationId: name, kind: name === "a" ? "source" : "action", ...inputs, ...concurrency }];
    }),
  );
  const defaults = { retryPolicy: retryOf(random, leaseMs) };
  const text = JSON.stringify({ flowdsl: "1.0", info: { title: flowId, version: "1.0.0" }, defaults, nodes, edges });
  const { ok, flows, findings } = await loadFlows({ text, file: "simulated.json" });
  if (!ok) throw new Error(`the simulator drew an invalid flow document: ${findings.map(({ message }) => message).join("; ")}`);
  return flows[0] as FlowPlan;
}

function nodeOf(port: string): string {
  return port.split(".")[0] as string;
}

function deliveryOf(random: Random, leaseMs: number, to: string, kept: boolean): Delivery {
  if (!kept && random.chance(0.15)) return { mode: "direct", idempotencyKey: keyFor(random, to) };
  const checkpoint = random.chance(0.2);
  const ordering = random.pick(["none", "none", "perKey", "strict"]);
  return {
    mode: checkpoint ? "checkpoint" : "durable",
    ...(checkpoint && { checkpointInterval: random.between(1, 3) }),
    ...(random.chance(0.8) && { idempotencyKey: keyFor(random, to) }),
    ...(ordering !== "none" && { ordering }),
    ...(ordering === "perKey" && { partitionKey: "{{payload.lane}}" }),
    ...(random.chance(0.2) && { maxInFlight: random.between(1, 2) }),
    ...(random.chance(0.15) && { batchSize: random.between(2, 3) }),
    ...(random.chance(0.15) && { recovery: { strategy: random.pick(["fail", "skip"]) } }),
    ...(random.chance(0.2) && { timeout: `PT${(leaseMs * random.between(1, 2)) / 1000}S` }),
    priority: random.between(0, 2),
    retryPolicy: { ...retryOf(random, leaseMs), ...(random.chance(0.15) && { deadLetterQueue: false }) },
  };
}

function retryOf(random: Random, leaseMs: number): Delivery {
  const initialDelay = `PT${random.pick([0.001, leaseMs / 1000])}S`;
  return { maxAttempts: random.between(1, 4), backoff: random.pick(["fixed", "exponential"]), initialDelay };
}

/** An idempotency key that is different for each payload id, or shared by all payloads with the same `k`. */
function keyFor(random: Random, to: string): string {
  return `{{payload.${random.pick(["id", "k"])}}}-${nodeOf(to)}`;
}
