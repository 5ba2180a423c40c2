import type { PacketNote } from "../../../core/packets/packet.js";
import { pushOrCreate } from "../../../core/values/push-or-create.js";
import { handle, type NodeContext, NodeInput, NodeOutput } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import type { Evaluated } from "../../plan/expression.js";
import type { PacketProblem } from "../../plan/packets.js";
import type { FlowPlan } from "../../plan/plan.js";
import type { Route, RunningNode } from "../flows/routes.js";
import { executionId, packetId } from "../views/ids.js";
import type { Attempt } from "./attempt.js";
import { warnOfPort } from "./outputs.js";
import type { Data, FlowOutput, Trace } from "./payload.js";

/** What leaves a stage: packets for edges that are kept in the store, or in memory, and what no edge took. */
export interface Leaving {
  stored: Sent[];
  ephemeral: Sent[];
  outputs: FlowOutput[];
  /** What nodes sent to ports that they do not declare, although they declare some. */
  undeclared: Undeclared[];
  /** Ports, `node.port`, that no edge is for, of nodes that declare none. What was sent there is an output. */
  unrouted: string[];
}

export interface Undeclared {
  readonly flow: FlowPlan;
  readonly node: RunningNode;
  readonly port: string;
  readonly data: Data;
}

export function noLeaving(): Leaving {
  return { stored: [], ephemeral: [], outputs: [], undeclared: [], unrouted: [] };
}

export interface Sent {
  readonly route: Route;
  readonly data: Data;
  /** Undefined: it may travel. Else why nobody can tell. */
  readonly problem: string | undefined;
}

type Call = typeof handle;

/**
 * A node, and the nodes behind it that direct edges lead to: one call, whose error is the error of all. What leaves it is
 * sent when all of them have returned: at once, where none of them waits for anything. Whether the packet is still ours
 * is asked before every node but the first: that is the caller's to ask, before its time begins.
 */
export function runStage(
  attempt: Attempt,
  inputs: Readonly<Record<string, Data>>,
  key: string | undefined,
  call: Call = handle,
): Leaving | Promise<Leaving> {
  const leaving = noLeaving();
  const running = run(attempt.route.node, inputs, key, attempt, leaving, call);
  return running === undefined ? leaving : running.then(() => leaving);
}

/** Undefined: it has run. */
function run(
  node: RunningNode,
  inputs: Readonly<Record<string, Data>>,
  key: string | undefined,
  attempt: Attempt,
  leaving: Leaving,
  call: Call,
): Promise<void> | undefined {
  const { work, plan } = node;
  if (work === undefined) throw new NodeError("PERMANENT", `node "${plan.id}" is not worked on in this process`);
  const called = call(work, new NodeInput(inputs, new StageContext(attempt, plan.id, key)));
  if (called instanceof NodeOutput) return passOn(node, called, attempt, leaving);
  return called.then((output) => passOn(node, output, attempt, leaving));
}

/** Along the edges of its node. Those that lead to a node at once are called one after the other. */
function passOn(node: RunningNode, output: NodeOutput, attempt: Attempt, leaving: Leaving): Promise<void> | undefined {
  let direct: Sent[] = [];
  const { id, outputs } = node.plan;
  const { flow } = attempt.route;
  for (const { port, data } of output.sent) {
    if (outputs.length > 0 && node.outgoing.length > 0 && !outputs.some(({ name }) => name === port)) {
      leaving.undeclared = pushOrCreate(leaving.undeclared, { flow, node, port, data });
      warnOfPort(flow, node, port, "the document does not declare it: declare it and add an edge, or correct the node");
      continue;
    }
    let taken = false;
    let isForPort = false;
    for (const { port: from, route } of node.outgoing) {
      if (from !== undefined && from !== port) continue;
      // Also where it says that this one does not travel: it was looked at, and is not left over.
      taken = true;
      if (route.when?.outputs === undefined || route.when.outputs.includes(port)) isForPort = true;
      const travels = route.when === undefined ? always : route.when.evaluate({ payload: data, output: port });
      if (travels.ok && !travels.value) continue;
      const sent: Sent = { route, data, problem: travels.ok ? undefined : `when: ${travels.why}` };
      if (route.delivery.mode === "direct") direct = pushOrCreate(direct, sent);
      else if (route.delivery.mode === "ephemeral") leaving.ephemeral = pushOrCreate(leaving.ephemeral, sent);
      else leaving.stored = pushOrCreate(leaving.stored, sent);
    }
    if (taken && !isForPort && outputs.length === 0) {
      taken = false;
      leaving.unrouted = pushOrCreate(leaving.unrouted, `${id}.${port}`);
      warnOfPort(flow, node, port, "no edge is for that port; it is kept as an output of the execution");
    }
    if (!taken) leaving.outputs = pushOrCreate(leaving.outputs, { node: id, port, data });
  }
  return callAll(direct, 0, attempt, leaving);
}

function callAll(direct: readonly Sent[], first: number, attempt: Attempt, leaving: Leaving): Promise<void> | undefined {
  for (let i = first; i < direct.length; i += 1) {
    const sent = direct[i] as Sent;
    const asking = attempt.ready();
    const running = asking === undefined ? callDirect(sent, attempt, leaving) : asking.then(() => callDirect(sent, attempt, leaving));
    if (running !== undefined) return running.then(() => callAll(direct, i + 1, attempt, leaving));
  }
  return undefined;
}

function callDirect({ route, data, problem }: Sent, attempt: Attempt, leaving: Leaving): Promise<void> | undefined {
  const inputs = { [route.port]: checkedDirect(route, data, problem) };
  return run(route.node, inputs, directKey(route, data), attempt, leaving, handle);
}

const always: Evaluated<boolean> = { ok: true, value: true };

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

/** What a node may ask for, made when it does. */
class StageContext implements NodeContext {
  readonly nodeId: string;
  readonly idempotencyKey: string | undefined;
  readonly #attempt: Attempt;

  constructor(attempt: Attempt, nodeId: string, key: string | undefined) {
    this.#attempt = attempt;
    this.nodeId = nodeId;
    this.idempotencyKey = key;
  }

  get flowId(): string {
    return this.#attempt.route.flow.id;
  }

  get executionId(): string {
    const { execution } = this.#attempt.packet;
    return execution === null ? "" : executionId(execution);
  }

  get packetId(): string {
    return packetId(this.#attempt.packet.no);
  }

  get attempt(): number {
    return this.#attempt.packet.attempt;
  }

  /** Of an alert, what it is about; no node of a document sees it. */
  get note(): PacketNote | null {
    return this.#attempt.packet.note ?? null;
  }

  get traceHeaders(): Trace {
    return this.#attempt.trace;
  }

  get signal(): AbortSignal {
    return this.#attempt.signal();
  }
}
