import { NotApplied } from "../../../core/errors/errors.js";
import { key } from "../../../core/ledger/key.js";
import { once } from "../../../core/ledger/once.js";
import { start } from "../../../workflow/client/start.js";
import { currentStep } from "../../../workflow/define/context.js";
import { step } from "../../../workflow/define/define.js";
import type { Step, Workflow } from "../../../workflow/define/definition.js";
import { FatalError, RetryableError } from "../../../workflow/define/errors.js";
import type { EffectLedger } from "../../effect-ledger.js";
import { never, type World } from "../world.js";
import type { BodyWatch, WatchedBody } from "./body-watch.js";
import type { WorkflowFleet } from "./fleet.js";
import type { WorkflowPlan } from "./plan.js";
import type { Program, StepKind } from "./program.js";
import type { SimulatedTx } from "./transactions.js";

interface Given {
  readonly name: string;
  readonly drawn: unknown;
}

export type Steps = Readonly<Record<StepKind, Step<[Given], unknown>>>;

export interface BodyScene {
  readonly world: World;
  readonly plan: WorkflowPlan;
  readonly fleet: WorkflowFleet;
  readonly effects: EffectLedger;
  readonly watch: BodyWatch;
  /** The workflow that a spawning step starts. */
  readonly play: () => Workflow<[Program], unknown>;
}

/** The steps of a world. Their bodies take virtual time, call the provider, and fail as the seed decides. */
export function stepsOf(scene: BodyScene): Steps {
  const { plan, effects, world } = scene;
  const poison = new Poison(scene);
  const { backoff, maxRetries, crashMax, timeoutMs, graceMs, reconcileAfterMs } = plan.steps;
  const usual = { maxRetries, crashMax, graceMs, backoff };
  const reconcile = async ({ stepId }: { readonly stepId: string }) => {
    await world.wait(world.random.between(0, plan.leaseMs));
    if (world.random.chance(plan.bodies.reconcileFails)) throw new Error("body: the provider did not answer");
    return world.random.chance(plan.bodies.reconcileFails) ? ("unknown" as const) : effects.find(stepId);
  };
  const body = (act: (step: WatchedBody, result: unknown) => Promise<unknown>) => async (given: Given) => await perform(scene, given, act);
  const call = async (step: WatchedBody, result: unknown) => callProvider(scene, step, result);
  return {
    plain: step("plain", async (given: Given) => await poison.before(() => perform(scene, given, call)), usual),
    keyed: step("keyed", body(call), { ...usual, effect: "keyed" }),
    reconcile: step("reconcile", body(call), { ...usual, effect: "reconcile", reconcile, reconcileAfterMs }),
    atMostOnce: step("atMostOnce", body(call), { ...usual, effect: "atMostOnce" }),
    timed: step("timed", body(call), { ...usual, timeoutMs }),
    named: step("named", body(call), { ...usual, key: ({ name }) => name }),
    brittle: step("brittle", body(call), { ...usual, maxRetries: 0 }),
    ledgered: step("ledgered", body(callOnce(scene)), usual),
    spawning: step("spawning", body(spawn(scene)), usual),
    streaming: step("streaming", body(stream(scene)), { ...usual, timeoutMs }),
    transactional: step.tx("transactional", (tx, given: Given) => perform(scene, given, insert(scene, tx as SimulatedTx)), usual),
  };
}

/** Makes the first called step kill its process before it does anything, as often as the plan says. */
class Poison {
  readonly #scene: BodyScene;
  #left: number;
  #stepId: string | undefined;

  constructor(scene: BodyScene) {
    this.#scene = scene;
    this.#left = scene.plan.bodies.poison;
  }

  async before(body: () => Promise<unknown>): Promise<unknown> {
    const { fleet, watch } = this.#scene;
    const step = currentStep() as WatchedBody;
    this.#stepId ??= step.stepId;
    if (step.stepId !== this.#stepId || this.#left === 0) return await body();
    this.#left -= 1;
    watch.begin(step);
    fleet.of(step.execution.host.owner).die("of a poisoned step");
    return await never();
  }
}

function callProvider({ effects, watch }: BodyScene, step: WatchedBody, result: unknown): unknown {
  const { stepId, attempt } = step;
  watch.called(step);
  return effects.call(stepId, { attempt, result });
}

async function perform(
  { world, plan, fleet, watch }: BodyScene,
  { name }: Given,
  act: (step: WatchedBody, result: unknown) => Promise<unknown>,
): Promise<unknown> {
  const { random } = world;
  const { msMax, throwBefore, throwAfter, fatal, ignoresAbort } = plan.bodies;
  const step = currentStep() as WatchedBody;
  const { clock } = fleet.of(step.execution.host.owner).process;
  const obeysAbort = !random.chance(ignoresAbort);
  const wait = (aborted: () => Error) =>
    new Promise<void>((resolve, reject) => {
      const cancel = clock.after(random.between(0, msMax), resolve);
      if (!obeysAbort) return;
      const abort = () => {
        cancel();
        reject(aborted());
      };
      if (step.signal.aborted) abort();
      else step.signal.addEventListener("abort", abort, { once: true });
    });
  const fail = () => {
    if (random.chance(fatal)) return new FatalError("body: permanent error");
    return random.chance(0.3)
      ? new RetryableError("body: try again later", { retryAfter: random.between(0, plan.leaseMs) })
      : new Error("body: failed");
  };
  watch.begin(step);
  try {
    await wait(() => new NotApplied("body: aborted before it did anything"));
    if (isDown(plan, name, world.now())) throw random.chance(0.8) ? new FatalError("body: the bank is down") : fail();
    if (random.chance(throwBefore)) throw random.chance(0.5) ? new NotApplied("body: nothing happened") : fail();
    watch.call(step);
    const { id, attempt } = step;
    const result = await act(step, { id, attempt, name });
    await wait(() => new Error("body: aborted after it was done"));
    if (random.chance(throwAfter)) throw fail();
    return result;
  } finally {
    watch.end(step);
  }
}

/** Whether the bank is away, which the steps of one name need. */
function isDown({ operators }: WorkflowPlan, name: string, now: number): boolean {
  return operators !== undefined && name === operators.outage.name && now < operators.outage.until;
}

/** Calls the provider through `once` on the store of the process: workflows and `once` share one store and its faults. */
function callOnce(scene: BodyScene) {
  const { plan } = scene;
  return async (step: WatchedBody, result: unknown) => {
    const { stepId, execution } = step;
    const options = { key: key.of(stepId), leaseMs: plan.leaseMs, waitMs: plan.leaseMs, retentionMs: "forever" as const };
    const answer = await once(execution.store, options, () => callProvider(scene, step, result));
    return "value" in answer ? answer.value : answer.status;
  };
}

/** Inserts a business row in the transaction that also writes the step's result. */
function insert({ watch }: BodyScene, tx: SimulatedTx) {
  return async (step: WatchedBody, result: unknown) => {
    tx.rows.push({ run: watch.runOf(step), id: step.id, attempt: step.attempt });
    return result;
  };
}

/** The stream that workflow code and streaming steps write to. */
export const simulatedStream = "chunks";

/** A chunk names its writer. Of a step, the stream must have the chunks of its last attempt, as many as its result says. */
export interface SimulatedChunk {
  readonly by: string;
  readonly attempt: number;
  readonly i: number;
}

function stream(scene: BodyScene) {
  const { world } = scene;
  return async (step: WatchedBody, result: unknown) => {
    const { id: by, attempt, writer } = step;
    callProvider(scene, step, result);
    const chunks = world.random.between(0, 4);
    for (let i = 0; i < chunks; i++) await writer.write(simulatedStream, { by, attempt, i } satisfies SimulatedChunk);
    return { chunks };
  };
}

/** Starts a run from inside a step: all attempts of the step must get the same run. */
function spawn(scene: BodyScene) {
  const { play } = scene;
  return async (step: WatchedBody) => {
    const { execution } = step;
    callProvider(scene, step, null);
    const program: Program = { do: "step", kind: "plain", name: "d", draws: false };
    return (await start(play(), [program], { store: execution.store })).id;
  };
}
