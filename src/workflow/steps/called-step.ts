import { type StepDefinition, stepDefinitionOf } from "../define/definition.js";
import { registeredStep } from "../define/registry.js";

export interface CalledStep {
  readonly name: string;
  /** Undefined if no step of this name is defined in this process. */
  readonly definition: StepDefinition | undefined;
}

/**
 * The step of a call id: "charge#0" and "charge:order-1" are calls of the step "charge"; "charge#0~retry1" is a call that a retry has renewed. The
 * name itself may contain a colon.
 */
export function calledStep(id: string): CalledStep {
  const numbered = /^(.*)#\d+(?:~retry\d+)?$/s.exec(id)?.[1];
  const names = numbered === undefined ? [...id].flatMap((char, i) => (char === ":" ? [id.slice(0, i)] : [])).reverse() : [numbered];
  for (const name of names) {
    const definition = stepDefinitionOf(registeredStep(name));
    if (definition !== undefined) return { name, definition };
  }
  return { name: numbered ?? id, definition: undefined };
}
