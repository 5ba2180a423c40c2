import { closest } from "../../core/errors/closest.js";
import { InvalidInputError } from "../../core/errors/errors.js";
import { stepDefinitionOf } from "../../workflow/define/definition.js";
import { presentName, registeredNames } from "../../workflow/define/registry.js";
import type { StepExecution } from "./step-execution.js";

/** A step function, or the name of a step. */
export type StepLike<Args extends readonly unknown[] = never[], Result = unknown> = ((...args: Args) => Promise<Result>) | string;

/** A mock that is in place, as `WorkflowTest.mockStep` returns it. */
export interface StepMock<Args extends readonly unknown[] = readonly unknown[]> {
  /** Every execution of the mock, in order. */
  readonly calls: readonly StepExecution<Args>[];
  /** Removes the mock. The step runs its own body again, or the mock that was in place before. */
  restore(): void;
}

interface Standing {
  readonly call: (args: readonly unknown[]) => unknown;
  readonly note: (execution: StepExecution) => void;
}

/** The mocks of steps in the runs of one runner. */
export class StepMocks {
  readonly #mocks = new Map<string, Standing[]>();

  add(name: string, stand: (...args: never[]) => unknown): StepMock {
    if (typeof stand !== "function") throw new InvalidInputError("mockStep", `needs a function that replaces step "${name}"`);
    const calls: StepExecution[] = [];
    const mock: Standing = {
      call: (args) => (stand as (...args: readonly unknown[]) => unknown)(...args),
      note: (execution) => void calls.push(execution),
    };
    this.#mocks.set(name, [...(this.#mocks.get(name) ?? []), mock]);
    const restore = () => {
      this.#mocks.set(
        name,
        (this.#mocks.get(name) ?? []).filter((other) => other !== mock),
      );
    };
    return { calls, restore };
  }

  /** The newest mock of the step. */
  of(name: string): Standing | undefined {
    return this.#mocks.get(name)?.at(-1);
  }
}

/** Throws when there is no such step: a test with a misspelt name would count zero calls and pass. */
export function stepNameOf(method: string, step: unknown): string {
  if (typeof step !== "string") {
    const definition = stepDefinitionOf(step);
    if (definition) return definition.name;
    const name = typeof step === "function" && step.name ? ` "${step.name}"` : "";
    throw new InvalidInputError(method, `needs a step or the name of a step, but got ${typeof step}${name}, which is not a step`);
  }
  const present = presentName("step", step);
  if (registeredNames("step").includes(present)) return present;
  const names = registeredNames("step");
  const near = closest(step, names);
  const known = names.slice(0, 20).map((name) => `"${name}"`);
  const advice = near === undefined ? `defined steps: ${known.join(", ") || "none"}` : `did you mean "${near}"?`;
  throw new InvalidInputError(method, `no step is named "${step}"; ${advice}`);
}
