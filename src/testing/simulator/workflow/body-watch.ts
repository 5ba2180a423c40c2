import { isSuspect } from "../../../core/runs/run.js";
import type { Execution } from "../../../workflow/execute/execution.js";
import type { StepBody } from "../../../workflow/steps/step-body.js";
import { PromiseBroken } from "../observer.js";
import type { World } from "../world.js";
import type { WorkflowFleet } from "./fleet.js";
import type { KnownRun } from "./known-run.js";
import type { RunObserver } from "./run-observer.js";

/** A step body with the execution that it belongs to. */
export type WatchedBody = StepBody & { readonly execution: Execution };

/** A call that reached the provider. */
interface ProviderCall {
  readonly run: KnownRun;
  readonly id: string;
  readonly attempt: number;
}

interface Attempt {
  /** The body has ended, or its process has died. */
  isOver: () => boolean;
}

/** Checks each step body when it starts and when it calls the provider. */
export class BodyWatch {
  readonly #world: World;
  readonly #fleet: WorkflowFleet;
  readonly #observer: RunObserver;
  readonly #leaseMs: number;
  readonly #started = new Map<string, Map<number, Attempt>>();
  readonly #calls: ProviderCall[] = [];
  readonly #bodyRuns = new WeakMap<WatchedBody, KnownRun | undefined>();
  /** Journals are being replayed: no body may run. */
  replaying = false;
  /** Step bodies that have started. */
  bodies = 0;

  constructor(world: World, fleet: WorkflowFleet, observer: RunObserver, leaseMs: number) {
    this.#world = world;
    this.#fleet = fleet;
    this.#observer = observer;
    this.#leaseMs = leaseMs;
  }

  begin(step: WatchedBody): void {
    const { execution, id, attempt } = step;
    const call = this.#callOf(execution.id, id);
    this.#bodyRuns.set(step, this.#observer.run(execution.id));
    const { process } = this.#fleet.of(execution.host.owner);
    this.bodies += 1;
    this.#observer.note(() => `p${process.id} starts ${execution.id} ${id} attempt ${attempt}`);
    this.#observer.guard(() => {
      const what = `${execution.id} ${id} attempt ${attempt}`;
      if (this.replaying) throw new PromiseBroken(`${what}: a replay ran the body`);
      this.#mustHaveEntry(step, "the body started");
      const attempts = this.#started.get(call) ?? new Map<number, Attempt>();
      this.#started.set(call, attempts);
      if (attempts.has(attempt)) throw new PromiseBroken(`${what}: the body ran twice`);
      let ended = false;
      attempts.set(attempt, { isOver: () => ended || process.dead });
      this.#ends.set(step, () => {
        ended = true;
      });
      const run = this.#observer.run(execution.id);
      if (run?.journal.stops.isPaused) throw new PromiseBroken(`${what}: started while the run was paused`);
      const mine = run?.owner === execution.host.owner && run.epoch === execution.epoch;
      // A jump of the store's clock expires leases whose owners cannot know it. A transactional body may start without the lease,
      // because its commit is rejected if another worker owns the run by then.
      const excused = this.#world.now() - this.#fleet.jumpedAt < this.#leaseMs || step.definition.tx;
      if (!mine && !excused) throw new PromiseBroken(`${what}: started while another worker owned the run`);
      if (mine) this.#mustBeAlone(what, run, this.#fleet.of(execution.host.owner).worker?.running ?? 0);
    });
  }

  /** A suspect run (several owners in a row have died with it) is executed only in a process that executes no other run. */
  #mustBeAlone(what: string, { trial }: Pick<KnownRun, "trial">, running: number): void {
    if (isSuspect(trial) && !trial.alone) throw new PromiseBroken(`${what}: started, but its run is a suspect that is not isolated`);
    if (trial.alone && running > 1) throw new PromiseBroken(`${what}: its run is isolated, but its process executes ${running} runs`);
  }

  /** The body is about to call the provider. */
  call(step: WatchedBody): void {
    this.#observer.note(() => `${step.execution.id} ${step.id} attempt ${step.attempt} calls the provider`);
    this.#observer.guard(() => this.#mustHaveEntry(step, "the body called the provider"));
  }

  /** The provider has got the call. */
  called(step: WatchedBody): void {
    this.#calls.push({ run: this.runOf(step), id: step.id, attempt: step.attempt });
  }

  /** The run whose body it is, although another run may have its id by now. */
  runOf(step: WatchedBody): KnownRun {
    const run = this.#bodyRuns.get(step);
    if (run === undefined) throw new Error(`the body of ${step.id} has not begun`);
    return run;
  }

  /** The attempts of a step that have called the provider. */
  callsOf(run: KnownRun, id: string): number[] {
    return this.#calls.filter((call) => call.run === run && call.id === id).map(({ attempt }) => attempt);
  }

  readonly #ends = new WeakMap<WatchedBody, () => void>();

  end(step: WatchedBody): void {
    this.#ends.get(step)?.();
  }

  /** All bodies of this step have ended or their processes have died. */
  isOver(run: string, id: string): boolean {
    return [...(this.#started.get(this.#callOf(run, id))?.values() ?? [])].every(({ isOver }) => isOver());
  }

  /** A fork may have the step ids of its original, and a run that was deleted and started again those of the earlier one. */
  #callOf(run: string, id: string): string {
    return `${run} ${this.#observer.incarnation(run)} ${id}`;
  }

  #mustHaveEntry(step: WatchedBody, did: string): void {
    const { execution, id, attempt } = step;
    const { steps, retired } = this.#bodyRuns.get(step)?.journal ?? {};
    const started = (steps?.get(id) ?? retired?.get(id))?.attempts ?? 0;
    if (started < attempt) throw new PromiseBroken(`${execution.id} ${id} attempt ${attempt}: ${did} without a journal entry`);
  }
}
