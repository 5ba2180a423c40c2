import { ConfigurationError, InvalidInputError } from "../../core/errors/errors.js";
import { key as keys } from "../../core/ledger/key.js";
import { once } from "../../core/ledger/once.js";
import type { SendPackets } from "../../core/packets/operation.js";
import type { Store, Tx } from "../../core/store/store.js";
import { afterEffect } from "../../core/work/until-answered.js";
import { Attempt } from "./delivery/attempt.js";
import { keyOf } from "./delivery/check.js";
import { type Leaving, noLeaving } from "./delivery/leaving.js";
import { pack } from "./delivery/pack.js";
import type { Data, Trace } from "./delivery/payload.js";
import type { CommittingSender } from "./delivery/sender.js";
import { runStage } from "./delivery/stage.js";
import { type FlowStates, flowArchived } from "./flows/flow-states.js";
import type { Route } from "./flows/route.js";
import type { MemoryQueues } from "./memory-edges/memory-queues.js";
import type { EventReporter } from "./views/event-reporter.js";

interface DirectContext {
  readonly store: Store;
  readonly sender: CommittingSender;
  readonly states: Pick<FlowStates, "of">;
  readonly memoryQueues: Pick<MemoryQueues, "checkRoom" | "send">;
  readonly options: { readonly timeoutMs: number; readonly graceMs: number; readonly retentionMs: number | null };
  readonly reporter: EventReporter;
}

interface DirectCall {
  readonly route: Route;
  readonly payload: Data;
  readonly key: string | undefined;
  readonly trace: Trace;
  readonly tx: Tx | undefined;
}

/** The call of a direct trigger. The runtime does not retry it; the caller of a keyed one may, so a late success must settle its key. */
class DirectAttempt extends Attempt {
  isKeyed = false;

  override get isRetriedAfterTimeout(): boolean {
    return this.isKeyed;
  }
}

/**
 * Calls the nodes of a direct entry while the caller waits, and throws their errors. The store keeps only the key, if there is
 * one, and dead letters of undeclared ports. Returns the number of the execution, and whether it ran now.
 */
export async function triggerDirect(
  context: DirectContext,
  call: DirectCall,
): Promise<{ readonly execution: number; readonly isNew: boolean }> {
  const { store, sender, options } = context;
  const { route, payload, key } = call;
  checkActive(context.states, route.flow.id);
  if (call.tx !== undefined)
    throw new InvalidInputError("tx", `flow "${route.flow.id}" stores nothing, because all its edges are direct or ephemeral`);
  const no = sender.next();
  if (key === undefined) {
    await run(context, call, no);
    return { execution: no, isNew: true };
  }
  const operation = {
    scope: `${route.flow.id}.direct_triggers`,
    key: keys.of(key),
    input: payload,
    retentionMs: options.retentionMs ?? "forever",
  } as const;
  const { status, value } = await once(store, operation, async () => {
    await run(context, call, no);
    return no;
  });
  return { execution: Number(value), isNew: status === "executed" };
}

function checkActive(states: Pick<FlowStates, "of">, flow: string): void {
  const state = states.of(flow);
  if (state === "archived") throw flowArchived(flow);
  if (state === "paused")
    throw new ConfigurationError(
      `[onceflow] flow "${flow}" is paused and stores nothing, so the packet cannot wait; resume the flow first`,
      {
        code: "FLOW_PAUSED",
      },
    );
}

async function run(context: DirectContext, { route, payload, key, trace }: DirectCall, no: number): Promise<void> {
  const { store, memoryQueues, options, reporter } = context;
  reporter.reportTriggered(route, no, key);
  const attempt = new DirectAttempt(route, { no, execution: no, attempt: 1 }, trace);
  attempt.isKeyed = key !== undefined;
  attempt.startLimit(store.clock, store.clock.now(), options.timeoutMs);
  const name = keyOf(route, payload);
  const running = runStage(attempt, { [route.port]: payload }, name.ok ? name.value : undefined);
  const leaving = running instanceof Promise ? await attempt.within(store.clock, options.graceMs, options.timeoutMs, running) : running;
  if (leaving.undeclared.length > 0) await saveUndeclared(context, leaving, trace);
  if (leaving.ephemeral.length === 0) return;
  memoryQueues.checkRoom(leaving.ephemeral);
  memoryQueues.send(leaving.ephemeral, { execution: no, trace }, []);
}

/** Packets for undeclared ports are saved as dead letters, although a direct trigger stores nothing else. */
async function saveUndeclared({ store, sender }: DirectContext, { undeclared }: Leaving, trace: Trace): Promise<void> {
  const { packets } = pack(sender, { ...noLeaving(), undeclared }, { execution: null, trace });
  const send: SendPackets = { verb: "sendPackets", worker: sender.worker, execution: null, packets };
  const answer = await afterEffect(store, () => store.commit({ packet: send }), { what: "a packet for an undeclared port" });
  if (answer.kind === "packetsSent") sender.receiveAnswer(answer, packets);
  else sender.cancelSend(packets);
}
