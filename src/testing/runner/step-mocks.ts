import { InvalidInputError } from "../../core/errors/errors.js";
import { stepDefinitionOf } from "../../workflow/define/definition.js";
import { presentName, registeredNames } from "../../workflow/define/registry.js";
import type { StepExecution } from "./step-execution.js";

/** A step, by itself or by its name. */
export type StepLike<Args extends readonly unknown[] = never[], Result = unknown> = ((...args: Args) => Promise<Result>) | string;

export interface StepMock<Args extends readonly unknown[] = readonly unknown[]> {
  /** Every call that reached the mock. */
  readonly calls: readonly StepExecution<Args>[];
  /** The step is itself again; or what it was mocked with before. */
  restore(): void;
}

interface Standing {
  readonly call: (args: readonly unknown[]) => unknown;
  readonly note: (execution: StepExecution) => void;
}

/** What stands in for steps, in the runs of one runner. */
export class StepMocks {
  readonly #mocks = new Map<string, Standing[]>();

  add(name: string, stand: (...args: never[]) => unknown): StepMock {
    if (typeof stand !== "function") throw new InvalidInputError("mockStep", `needs a function to stand in for step "${name}"`);
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

  /** The newest one. */
  of(name: string): Standing | undefined {
    return this.#mocks.get(name)?.at(-1);
  }
}

/** Refused when there is no such step: a test about a misspelt one would count nothing, and be content. */
export function stepNameOf(method: string, step: unknown): string {
  if (typeof step !== "string") {
    const definition = stepDefinitionOf(step);
    if (definition) return definition.name;
    const name = typeof step === "function" && step.name ? ` "${step.name}"` : "";
    throw new InvalidInputError(method, `needs a step or its name, and was given ${typeof step}${name}, which is no step`);
  }
  const present = presentName("step", step);
  if (registeredNames("step").includes(present)) return present;
  const known = registeredNames("step")
    .slice(0, 20)
    .map((name) => `"${name}"`);
  throw new InvalidInputError(method, `no step is named "${step}"; known here are ${known.join(", ") || "none"}`);
}
