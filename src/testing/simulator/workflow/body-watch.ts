import { isSuspect } from "../../../core/runs/run.js";
import type { Execution } from "../../../workflow/execute/execution.js";
import type { StepBody } from "../../../workflow/steps/step-body.js";
import { PromiseBroken } from "../observer.js";
import type { World } from "../world.js";
import type { WorkflowFleet } from "./fleet.js";
import type { KnownRun, RunObserver } from "./run-observer.js";

/** A body, and the execution that it is part of. */
export type WatchedBody = StepBody & { readonly execution: Execution };

interface Attempt {
  /** The process that it runs in has died, or it is over. */
  over: () => boolean;
}

/** Looks at every body as it begins and as it calls the other side. */
export class BodyWatch {
  readonly #world: World;
  readonly #fleet: WorkflowFleet;
  readonly #observer: RunObserver;
  readonly #leaseMs: number;
  readonly #begun = new Map<string, Map<number, Attempt>>();
  /** Journals are being replayed: nothing may be executed. */
  replaying = false;
  bodies = 0;

  constructor(world: World, fleet: WorkflowFleet, observer: RunObserver, leaseMs: number) {
    this.#world = world;
    this.#fleet = fleet;
    this.#observer = observer;
    this.#leaseMs = leaseMs;
  }

  begin(step: WatchedBody): void {
    const { execution, id, attempt, stepId } = step;
    const { process } = this.#fleet.of(execution.host.owner);
    this.bodies += 1;
    this.#observer.note(() => `p${process.id} begins ${execution.id} ${id} attempt ${attempt}`);
    this.#observer.guard(() => {
      const what = `${execution.id} ${id} attempt ${attempt}`;
      if (this.replaying) throw new PromiseBroken(`${what}: a replay executed it`);
      this.#mustHaveEntry(step, "began");
      const attempts = this.#begun.get(stepId) ?? new Map<number, Attempt>();
      this.#begun.set(stepId, attempts);
      if (attempts.has(attempt)) throw new PromiseBroken(`${what}: its body began twice`);
      let ended = false;
      attempts.set(attempt, { over: () => ended || process.dead });
      this.#ends.set(step, () => {
        ended = true;
      });
      const run = this.#observer.run(execution.id);
      const mine = run?.owner === execution.host.owner && run.epoch === execution.epoch;
      // A jump of the store's clock ends leases that their owners could not know to be over. What a transaction writes is
      // refused when the run is somebody else's at its end, so it may begin in doubt.
      const excused = this.#world.now() - this.#fleet.jumpedAt < this.#leaseMs || step.definition.tx;
      if (!mine && !excused) throw new PromiseBroken(`${what}: began while the run belonged to somebody else`);
      if (mine) this.#mustBeAlone(what, run, this.#fleet.of(execution.host.owner).worker?.running ?? 0);
    });
  }

  /** A run that may have killed two owners is executed only where no other run can die with it. */
  #mustBeAlone(what: string, { trial }: Pick<KnownRun, "trial">, running: number): void {
    if (isSuspect(trial) && !trial.alone) throw new PromiseBroken(`${what}: began, and its run is a suspect that is not alone`);
    if (trial.alone && running > 1) throw new PromiseBroken(`${what}: began alone, among ${running} runs`);
  }

  /** The other side is called now. */
  call(step: WatchedBody): void {
    this.#observer.note(() => `${step.execution.id} ${step.id} attempt ${step.attempt} calls the other side`);
    this.#observer.guard(() => this.#mustHaveEntry(step, "called"));
  }

  readonly #ends = new WeakMap<WatchedBody, () => void>();

  end(step: WatchedBody): void {
    this.#ends.get(step)?.();
  }

  /** No body of this step will ever do anything any more. */
  isOver(stepId: string): boolean {
    return [...(this.#begun.get(stepId)?.values() ?? [])].every(({ over }) => over());
  }

  #mustHaveEntry({ execution, id, attempt }: WatchedBody, did: string): void {
    const started = this.#observer.run(execution.id)?.journal.steps.get(id)?.attempts ?? 0;
    if (started < attempt) throw new PromiseBroken(`${execution.id} ${id} attempt ${attempt}: ${did} without its entry in the journal`);
  }
}
