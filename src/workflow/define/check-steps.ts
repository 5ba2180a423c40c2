import { closest } from "../../core/errors/closest.js";
import { InvalidInputError } from "../../core/errors/errors.js";
import { nearest } from "../../core/errors/known-options.js";
import { type StepDefinition, stepDefinitionOf } from "./definition.js";
import { messageOf } from "./message-of.js";
import { registered } from "./registry.js";
import { checkOptionNames, resolveOptions, stepOptionNames } from "./step-options.js";

/** Properties that are read from the step function itself. */
const onFunction = ["maxRetries", "options"] as const;
/** Without "key": nearly every word of three letters is within two edits of it. */
const misspellable = [...onFunction, ...Object.keys(stepOptionNames)].filter((name) => name.length > 3);

/**
 * Checks `fn.maxRetries` and `fn.options` of every step in this process. They are assigned after the step is defined, so
 * they are checked before a run is started and before one is claimed. A check inside a run would be too late: the run would
 * fail because of a misspelt word. Steps that the code of a run defines are skipped: they exist only in that run and are
 * checked when they are called.
 */
export function checkSteps(): void {
  for (const call of registered("step")) {
    const own = Object.keys(call);
    if (own.length > 0) checkStep(call as Assigned, own);
  }
}

type Assigned = ((...args: never[]) => unknown) & { readonly maxRetries?: unknown; readonly options?: unknown };

function checkStep(call: Assigned, own: readonly string[]): void {
  const defined = stepDefinitionOf(call);
  if (defined !== undefined && !defined.nested) checkAssigned(defined, call, own);
}

function checkAssigned(defined: StepDefinition, call: Assigned, own: readonly string[]): void {
  const { name } = defined;
  for (const each of own) checkName(name, each);
  const { options } = call;
  if (options !== undefined && (typeof options !== "object" || options === null))
    throw new InvalidInputError(`step "${name}": options`, "must be an object");
  if (options !== undefined) checkOptionNames(name, options);
  // Check the values, too: this throws the error that the first call would throw.
  defined.resolve();
}

/** Invalid options of a step that is called in a run. */
export interface WrongOptions {
  readonly message: string;
  /** True: no attempt can run with these options. False: only an option name is unknown, and a step that started before the check existed continues. */
  readonly unusable: boolean;
}

export interface CheckedDefinition {
  /** The definition, with default options if those of the step are invalid. Undefined if the option `key`, which names the call, is invalid. */
  readonly definition: StepDefinition | undefined;
  readonly wrong: WrongOptions | undefined;
}

/** Checks options when a step is called. Never throws, because a run must not fail because of a misspelt option. */
export function checkedAtCall(called: StepDefinition): CheckedDefinition {
  try {
    called.options();
  } catch (error) {
    return { definition: withDefaults(called), wrong: { message: messageOf(error), unusable: true } };
  }
  if (!called.nested) return { definition: called, wrong: undefined };
  const own = Object.keys(called.call);
  try {
    if (own.length > 0) checkAssigned(called, called.call, own);
    return { definition: called, wrong: undefined };
  } catch (error) {
    return { definition: called, wrong: { message: messageOf(error), unusable: false } };
  }
}

function withDefaults(called: StepDefinition): StepDefinition | undefined {
  const { key } = ((called.call as Assigned).options ?? {}) as { readonly key?: unknown };
  if (key !== undefined && typeof key !== "function") return undefined;
  const options = resolveOptions(called.name, key === undefined ? {} : { key });
  return { ...called, options: () => options };
}

function checkName(step: string, name: string): void {
  if (onFunction.some((each) => each === name)) return;
  const field = `step "${step}": ${name}`;
  if (Object.hasOwn(stepOptionNames, name))
    throw new InvalidInputError(field, `is not read from the function; assign options = { ${name}: … } to the function instead`);
  const near = closest(name, misspellable) ?? nearest(name, ["maxRetries"]);
  if (near !== undefined) throw new InvalidInputError(field, `is not read from the function; did you mean "${near}"?`);
}
