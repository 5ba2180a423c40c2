import type { FlowPlan } from "../plan/plan.js";
import { pascalCase } from "./type-text.js";

/** Unique type names. The first two are names that the generated files import. */
export class Names {
  readonly #taken = new Set(["NodeError", "TypedNode"]);

  /** The wanted one, or with a number; with everything that is made of it by adding an end. */
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

/** The type of every node, by the node's id. */
export function nodeNames({ nodes }: FlowPlan, names: Names): ReadonlyMap<string, string> {
  const ends = ["", "Inputs", "Outputs"];
  return new Map([...nodes.values()].map(({ id, operationId }) => [id, names.take(pascalCase(operationId), ends)]));
}

/**
 * A flow's id as the beginning of a file's name: it stays in its folder, is not hidden, and says nothing to the language
 * that imports it. What is neither letter, digit, `_`, `-` nor a dot within is written as its code, so that two ids stay two.
 */
export const fileName = (flowId: string): string =>
  flowId.replace(/^$|^\.|[^\w.-]/gu, (sign) => `_x${(sign.codePointAt(0) ?? 0).toString(16)}`);
