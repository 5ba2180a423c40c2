import { InvalidInputError } from "../../../core/errors/errors.js";
import { Findings, wholeFile } from "../../findings/finding.js";
import { dataOf } from "../../node/input-data.js";
import type { NodeInput } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import { compile } from "../../plan/expression.js";

/** Evaluates a setting's expression for a node's input. Throws NodeError VALIDATION if it has no value. */
export type InputExpression = (input: NodeInput) => unknown;

/** Compiles an expression of a setting. Throws InvalidInputError, which names the setting, if it is not in the language. */
export function compileSetting(field: string, text: string, example: string): InputExpression {
  const evaluate = compileExpression(field, text, example);
  return (input) => evaluate(dataOf(input));
}

/** The same as a function of the packet. */
export function compileExpression(field: string, text: string, example: string): (payload: unknown) => unknown {
  const findings = new Findings(1);
  const compiled = compile({ text, spot: wholeFile(field) }, { findings, example });
  if (compiled === undefined) {
    const [finding] = findings.list(field);
    throw new InvalidInputError(field, `${finding?.message ?? "is not an expression"} (${finding?.fix ?? `example: ${example}`})`);
  }
  return (payload) => {
    const result = compiled.run({ payload });
    if (result.ok) return result.value;
    throw new NodeError("VALIDATION", `${field}: ${result.why}`);
  };
}
