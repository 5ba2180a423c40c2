import type { Evaluated } from "../expression.js";
import { handle, type NodeContext, NodeInput, NodeOutput } from "../node/node.js";
import { NodeError } from "../node/node-error.js";
import type { PacketProblem } from "../packets.js";
import type { Data, Trace } from "./payload.js";
import type { Route, RunningNode } from "./routes.js";

/** What leaves a stage: packets for edges that are not direct, and what no edge took. */
export interface Leaving {
  readonly routed: Sent[];
  readonly outputs: { readonly node: string; readonly port: string; readonly data: Data }[];
}

export interface Sent {
  readonly route: Route;
  readonly data: Data;
  /** Undefined: it may travel. Else why nobody can tell. */
  readonly problem: string | undefined;
}

/** What all nodes of a stage have in common. */
export interface Stage {
  readonly flowId: string;
  readonly executionId: string;
  readonly packetId: string;
  readonly attempt: number;
  readonly traceHeaders: Trace;
  /** Made when the first node asks for it. */
  readonly signal: () => AbortSignal;
  /** Asked before every node of it: rejects where the packet is not ours any more. Undefined: it is. */
  readonly ready?: () => Promise<void> | undefined;
}

/**
 * A node, and the nodes behind it that direct edges lead to: one call, whose error is the error of all. What leaves it is
 * sent when all of them have returned.
 */
export async function runStage(
  node: RunningNode,
  inputs: Readonly<Record<string, Data>>,
  key: string | undefined,
  stage: Stage,
  call: typeof handle = handle,
): Promise<Leaving> {
  const leaving: Leaving = { routed: [], outputs: [] };
  await run(node, inputs, key, stage, leaving, call);
  return leaving;
}

async function run(
  node: RunningNode,
  inputs: Readonly<Record<string, Data>>,
  key: string | undefined,
  stage: Stage,
  leaving: Leaving,
  call: typeof handle,
): Promise<void> {
  if (node.work === undefined) throw new NodeError("PERMANENT", `node "${node.plan.id}" is not worked on in this process`);
  const asking = stage.ready?.();
  if (asking !== undefined) await asking;
  const called = call(node.work, new NodeInput(inputs, new StageContext(stage, node.plan.id, key)));
  const output = called instanceof NodeOutput ? called : await called;
  for (const { port, data } of output.sent) {
    let taken = false;
    for (const { port: from, route } of node.outgoing) {
      if (from !== undefined && from !== port) continue;
      // Also where it says that this one does not travel: it was looked at, and is not left over.
      taken = true;
      const travels = maybe(route, data, port);
      if (travels.ok && !travels.value) continue;
      const problem = travels.ok ? undefined : `when: ${travels.why}`;
      if (route.delivery.mode !== "direct") leaving.routed.push({ route, data, problem });
      else await run(route.node, { [route.port]: checkedDirect(route, data, problem) }, directKey(route, data), stage, leaving, handle);
    }
    if (!taken) leaving.outputs.push({ node: node.plan.id, port, data });
  }
}

const always: Evaluated<boolean> = { ok: true, value: true };

function maybe({ when }: Route, data: Data, output: string): Evaluated<boolean> {
  return when === undefined ? always : when.evaluate({ payload: data, output });
}

/** What is wrong with a packet for this edge; undefined: nothing. */
export function problemOf(
  { packet }: Route,
  data: Data,
  problems: readonly PacketProblem[] = packet?.check(data) ?? [],
): string | undefined {
  if (problems.length === 0) return undefined;
  return `the packet is no ${packet?.name}: ${problems.map(({ pointer, message }) => `${pointer || "/"} ${message}`).join("; ")}`;
}

const noKey: Evaluated<undefined> = { ok: true, value: undefined };

/** What the edge's template makes of a packet. Where something is missing there is no key, and never the text "undefined". */
export function keyOf({ delivery: { key }, flow, node }: Route, data: Data): Evaluated<string | undefined> {
  if (key === undefined) return noKey;
  const made = key.make({ payload: data, operationId: node.plan.operationId, flowId: flow.id });
  return made.ok ? made : { ok: false, why: `idempotencyKey ${key.text}: ${made.why}` };
}

/** The caller of a direct call gets its error. */
function checkedDirect(route: Route, data: Data, problem: string | undefined): Data {
  const wrong = problem ?? problemOf(route, data);
  if (wrong === undefined) return data;
  throw new NodeError("VALIDATION", `edge ${route.queue}: ${wrong}`);
}

/** To be handed to providers; nothing is kept of a direct call here. */
function directKey(route: Route, data: Data): string | undefined {
  const key = keyOf(route, data);
  if (key.ok) return key.value;
  throw new NodeError("VALIDATION", `edge ${route.queue}: ${key.why}`);
}

class StageContext implements NodeContext {
  readonly flowId: string;
  readonly executionId: string;
  readonly nodeId: string;
  readonly packetId: string;
  readonly idempotencyKey: string | undefined;
  readonly attempt: number;
  readonly traceHeaders: Trace;
  readonly #signal: () => AbortSignal;

  constructor({ flowId, executionId, packetId, attempt, traceHeaders, signal }: Stage, nodeId: string, key: string | undefined) {
    this.flowId = flowId;
    this.executionId = executionId;
    this.nodeId = nodeId;
    this.packetId = packetId;
    this.idempotencyKey = key;
    this.attempt = attempt;
    this.traceHeaders = traceHeaders;
    this.#signal = signal;
  }

  get signal(): AbortSignal {
    return this.#signal();
  }
}
