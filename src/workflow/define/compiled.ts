import { currentExecution } from "./context.js";
import { stepDefinition } from "./define.js";
import { registerWorkflow, type StepDefinition, stepDefinitionOf } from "./definition.js";
import { addFormerName, type Kind } from "./registry.js";

/**
 * What transformed code calls: a function that says "use step" or "use workflow" becomes what `step()` and `workflow()`
 * would have made of it, and stays the function that it was for everybody else.
 */
type Body = (this: unknown, ...args: unknown[]) => Promise<unknown>;

/** The id, or the id and then the ids that earlier versions gave the same function. */
type Names = string | readonly [id: string, ...former: string[]];

/** What the transform calls a default export that has no name. */
const unnamed = "__onceflow_default";

/** A declaration: `call` is hoisted, so that it may be called before this is; the first of the two defines it. */
export function hoistedStep(call: Body, names: Names, body: Body): StepDefinition {
  const existing = stepDefinitionOf(call);
  if (existing) return existing;
  const defined = stepDefinition({ what: "step", ...namesIn(names), fn: body, call });
  if (call.name === unnamed) rename(call, "default");
  // In stacks it is the user's function.
  rename(body, call.name);
  return defined;
}

/** A call: in a workflow it is asked of the run; anywhere else it is just the body. */
export function callStep(call: Body, names: Names, body: Body, self: unknown, args: unknown[]): Promise<unknown> {
  const execution = currentExecution();
  if (execution === undefined) return body.apply(self, args);
  const defined = hoistedStep(call, names, body);
  if (self === undefined || self === globalThis) return execution.calls.call(defined, args);
  // A method: every attempt has the same `this`.
  return execution.calls.call({ ...defined, fn: (...given: unknown[]) => body.apply(self, given) }, args);
}

/** An arrow function, a function expression, a member of an object. */
export function step(names: Names, body: Body): Body {
  const call = function (this: unknown, ...args: unknown[]): Promise<unknown> {
    return callStep(call, names, body, this, args);
  };
  rename(call, body.name === "" ? lastNameOf(names) : body.name);
  Object.defineProperty(call, "length", { value: body.length, configurable: true });
  hoistedStep(call, names, body);
  return call;
}

/** A method of a class, taken from and put back to where it stands. */
export function stepMethod(owner: object, key: string, names: Names): void {
  replace(owner, key, (body) => step(names, body));
}

/** It stays as it is, and can be started from now on. */
export function workflow(names: Names, where: string, fn: Body): Body {
  if (fn.name === "" || fn.name === unnamed) rename(fn, lastNameOf(names));
  return registerWorkflow(fn, { ...namesIn(names), fn, where });
}

/** A static one is executed with its class as `this`. */
export function workflowMethod(owner: object, key: string, names: Names, where: string): void {
  replace(owner, key, (body) => registerWorkflow(body, { ...namesIn(names), fn: (...args) => body.apply(owner, args), where }));
}

/** Several functions of one file would have had this id, also those that have not been reached yet. */
export function sharedName(kind: Kind, former: string, ...ids: readonly string[]): void {
  for (const id of ids) addFormerName(kind, former, id);
}

function namesIn(names: Names): { readonly name: string; readonly former: readonly string[] } {
  if (typeof names === "string") return { name: names, former: [] };
  const [name, ...former] = names;
  return { name, former };
}

function replace(owner: object, key: string, make: (body: Body) => Body): void {
  const descriptor = Object.getOwnPropertyDescriptor(owner, key) as TypedPropertyDescriptor<Body>;
  Object.defineProperty(owner, key, { ...descriptor, value: make(descriptor.value as Body) });
}

function rename(fn: Body, name: string): void {
  Object.defineProperty(fn, "name", { value: name, configurable: true });
}

function lastNameOf(names: Names): string {
  const { name: id } = namesIn(names);
  return id.slice(Math.max(id.lastIndexOf("/"), id.lastIndexOf(".")) + 1);
}
