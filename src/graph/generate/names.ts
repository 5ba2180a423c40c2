import type { FlowPlan } from "../plan/plan.js";
import { pascalCase } from "./type-text.js";

/** Assigns unique type names. */
export class Names {
  readonly #taken: Set<string>;

  /** Starts with names that types cannot have, such as those that the generated files import. */
  constructor(taken: readonly string[]) {
    this.#taken = new Set(taken);
  }

  /** Reserves `wanted`, with a number added if necessary, together with that name plus each of `ends`. */
  take(wanted: string, ends: readonly string[] = [""]): string {
    let name = wanted;
    for (let number = 2; ends.some((end) => this.#taken.has(name + end)); number += 1) name = `${wanted}${number}`;
    for (const end of ends) this.#taken.add(name + end);
    return name;
  }

  has(name: string): boolean {
    return this.#taken.has(name);
  }
}

/** The type name of every node, by node id. */
export function nodeNames({ nodes }: FlowPlan, names: Names): ReadonlyMap<string, string> {
  const ends = ["", "Inputs", "Outputs"];
  return new Map([...nodes.values()].map(({ id, operationId }) => [id, names.take(pascalCase(operationId), ends)]));
}

/**
 * A flow's id as a file name that stays in its folder, is not hidden, and can be imported. Characters other than letters, digits,
 * `_`, `-` and inner dots are written as their code, so that different ids get different names.
 */
export const fileName = (flowId: string): string =>
  flowId.replace(/^$|^\.|[^\w.-]/gu, (sign) => `_x${(sign.codePointAt(0) ?? 0).toString(16)}`);
