import type { PacketNote } from "../../../core/packets/packet.js";
import { pushOrCreate } from "../../../core/values/push-or-create.js";
import type { StoredContext } from "../../node/deliver-later.js";
import { handle, NodeInput, NodeOutput } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import type { Evaluated } from "../../plan/expression.js";
import type { PlannedNode } from "../../plan/plan.js";
import type { Route, RunningNode } from "../flows/route.js";
import { executionId, packetId } from "../views/ids.js";
import type { Attempt } from "./attempt.js";
import { keyOf, problemOf } from "./check.js";
import { type Leaving, noLeaving, type Sent } from "./leaving.js";
import type { Data, Trace } from "./payload.js";
import { warnOfPort } from "./undeclared.js";

type Call = typeof handle;

/**
 * Runs a stage: calls the node, sorts what it sends by edge, then calls the nodes that direct edges lead to, one after the
 * other. An error of any of them is the error of the stage. Returns at once if no node returns a promise.
 *
 * The lease is checked before every node but the first: the caller checks it for the first, before its time limit starts.
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

/** Undefined: the node, and the nodes behind it, have run. */
function run(
  node: RunningNode,
  inputs: Readonly<Record<string, Data>>,
  key: string | undefined,
  attempt: Attempt,
  leaving: Leaving,
  call: Call,
): Promise<void> | undefined {
  const { work, plan } = node;
  if (work === undefined) throw new NodeError("PERMANENT", `this process has no code for node "${plan.id}"`);
  const called = call(work, new NodeInput(inputs, new StageContext(attempt, plan, key)));
  if (called instanceof NodeOutput) return passOn(node, called, attempt, leaving);
  return called.then((output) => passOn(node, output, attempt, leaving));
}

/** Sorts the packets of a node into `leaving`, by edge, and calls the nodes behind direct edges. */
function passOn(node: RunningNode, output: NodeOutput, attempt: Attempt, leaving: Leaving): Promise<void> | undefined {
  let direct: Sent[] = [];
  const { id, outputs } = node.plan;
  const { flow } = attempt.route;
  for (const { port, data } of output.sent) {
    if (isUndeclared(node, port)) {
      leaving.undeclared = pushOrCreate(leaving.undeclared, { flow, node, port, data });
      warnOfPort(flow, node, port, "the document does not declare this port; declare it and add an edge, or correct the node");
      continue;
    }
    let taken = false;
    let isForPort = false;
    for (const { port: from, route } of node.outgoing) {
      if (from !== undefined && from !== port) continue;
      // An edge whose `when` rejects the packet has handled it, too: the packet is not an output.
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
      warnOfPort(flow, node, port, "no edge takes packets of this port; they are kept as outputs of the execution");
    }
    if (!taken) leaving.outputs = pushOrCreate(leaving.outputs, { node: id, port, data });
  }
  return callAll(direct, 0, attempt, leaving);
}

/** The node declares other ports. A node without edges sends outputs of the execution. */
function isUndeclared({ plan: { outputs }, outgoing }: RunningNode, port: string): boolean {
  if (outputs.length === 0 || outgoing.length === 0) return false;
  for (const { name } of outputs) if (name === port) return false;
  return true;
}

function callAll(direct: readonly Sent[], first: number, attempt: Attempt, leaving: Leaving): Promise<void> | undefined {
  for (let i = first; i < direct.length; i += 1) {
    const sent = direct[i] as Sent;
    const checking = attempt.checkLease();
    const running = checking === undefined ? callDirect(sent, attempt, leaving) : checking.then(() => callDirect(sent, attempt, leaving));
    if (running !== undefined) return running.then(() => callAll(direct, i + 1, attempt, leaving));
  }
  return undefined;
}

function callDirect({ route, data, problem }: Sent, attempt: Attempt, leaving: Leaving): Promise<void> | undefined {
  const inputs = { [route.port]: checkedDirect(route, data, problem) };
  return run(route.node, inputs, directKey(route, data), attempt, leaving, handle);
}

const always: Evaluated<boolean> = { ok: true, value: true };

/** Throws to the node before the direct edge: that call fails. */
function checkedDirect(route: Route, data: Data, problem: string | undefined): Data {
  const wrong = problem ?? problemOf(route, data);
  if (wrong === undefined) return data;
  throw new NodeError("VALIDATION", `edge ${route.queue}: ${wrong}`);
}

/** The key for the node to pass to a provider. The store keeps no record of it. */
function directKey(route: Route, data: Data): string | undefined {
  const key = keyOf(route, data);
  if (key.ok) return key.value;
  throw new NodeError("VALIDATION", `edge ${route.queue}: ${key.why}`);
}

/** The context of a node. Its members are computed when the node reads them. */
class StageContext implements StoredContext {
  readonly idempotencyKey: string | undefined;
  readonly #attempt: Attempt;
  readonly #node: PlannedNode;

  constructor(attempt: Attempt, node: PlannedNode, key: string | undefined) {
    this.#attempt = attempt;
    this.#node = node;
    this.idempotencyKey = key;
  }

  get nodeId(): string {
    return this.#node.id;
  }

  get settings(): Readonly<Record<string, unknown>> {
    return this.#node.settings;
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

  get sentAt(): number | undefined {
    return this.#attempt.packet.createdAt;
  }

  /** Only ready-made nodes read it. */
  get storeNow(): number | undefined {
    return this.#attempt.storeNow;
  }

  /** Why the store made the dead letter that an alert is about. Only the built-in alert node reads it. */
  get note(): PacketNote | null {
    return this.#attempt.packet.note ?? null;
  }

  get traceHeaders(): Trace {
    return this.#attempt.trace;
  }

  get signal(): AbortSignal {
    return this.#attempt.signal();
  }

  get remainingMs(): number | undefined {
    return this.#attempt.remainingMs;
  }
}
