import { inShort } from "../../core/errors/in-short.js";
import { capturedSite, siteOf } from "../define/call-site.js";
import type { StepDefinition } from "../define/definition.js";
import { argumentsIn, inputDifference } from "../journal/arguments/input-difference.js";
import { describe } from "../journal/describe.js";
import type { Request } from "../journal/event.js";
import type { Divergence } from "../replay/divergence.js";
import { journaledName } from "../replay/journaled-name.js";
import type { ServingRun } from "../replay/serving-run.js";
import type { StepCall } from "./call/step-call.js";
import { checkedKey } from "./step-input.js";

/** The run whose code may make other calls than its journal has. */
export interface DivergingRun extends Pick<ServingRun, "requests"> {
  diverge(divergence: Divergence): void;
}

interface NamedCall {
  readonly id: string;
  readonly definition: StepDefinition;
}

/**
 * The id of a call. Calls are counted together for the current and former names: after a journaled "old#0" comes "new#1". `calls`: the earlier calls of
 * the code. Undefined if the code has diverged from the journal.
 */
export function nameOf(
  run: DivergingRun,
  definition: StepDefinition,
  args: readonly unknown[],
  calls: { has(id: string): boolean },
): NamedCall | undefined {
  const { requests } = run;
  const { name, former = [] } = definition;
  const { key } = definition.options();
  const suffix =
    key === undefined ? `#${requests.count(name)}` : `:${checkedKey(name, (key as (...args: readonly unknown[]) => unknown)(...args))}`;
  if (former.length === 0) return { id: requests.idOf(name + suffix), definition };
  const idOf = (each: string) => requests.idOf(each + suffix);
  const has = (each: string) => requests.has(idOf(each)) || calls.has(idOf(each));
  const journaled = journaledName({ kind: "step", renamed: definition, has });
  if (typeof journaled !== "string") {
    run.diverge(journaled);
    return undefined;
  }
  return { id: idOf(journaled), definition: journaled === name ? definition : { ...definition, name: journaled } };
}

/** The journal has the call with other arguments. */
export function inputDivergence({ id, stepId, definition, given }: StepCall, event: Request): Divergence {
  const asked = given.input();
  const journaled = event.type === "step" ? argumentsIn(event.fingerprint) : undefined;
  const difference = journaled ? inputDifference(journaled, asked) : `the arguments are now ${inShort(asked, 200)}`;
  return {
    expected: `${describe(event)} with the arguments it had`,
    found: "the same call with other arguments",
    where: siteOf(capturedSite(definition.call)),
    input: { id, stepId, asked },
    ...(difference ? { difference } : {}),
  };
}
