import { currentExecution } from "./context.js";
import { stepDefinition } from "./define.js";
import { registerWorkflow, type StepDefinition, stepDefinitionOf } from "./definition.js";
import { addFormerName, type Kind } from "./registry.js";

// Functions that transformed code calls. They register a function with a directive as `step()` and `workflow()` would,
// while other code can still call the function as before.

/** The user's function. */
type Body = (this: unknown, ...args: unknown[]) => Promise<unknown>;

/** The id, or the id and then the ids that earlier versions gave the same function. */
type Names = string | readonly [id: string, ...former: string[]];

/** The name that the transform gives an unnamed default export. */
const unnamed = "__onceflow_default";

/** Registers a declared function as a step. `call` is hoisted, so it may run before this registration; the first of the two registers the step. */
export function hoistedStep(call: Body, names: Names, body: Body): StepDefinition {
  const existing = stepDefinitionOf(call);
  if (existing) return existing;
  const defined = stepDefinition({ what: "step", ...namesIn(names), fn: body, call });
  if (call.name === unnamed) rename(call, "default");
  // Stack traces show the user's name.
  rename(body, call.name);
  return defined;
}

/** Calls a step: in a workflow the call goes through the run and its journal; elsewhere it only runs the body. */
export function callStep(call: Body, names: Names, body: Body, self: unknown, args: unknown[]): Promise<unknown> {
  const execution = currentExecution();
  if (execution === undefined) return body.apply(self, args);
  const defined = hoistedStep(call, names, body);
  if (self === undefined || self === globalThis) return execution.calls.call(defined, args);
  // A method call: every attempt gets the same `this`.
  return execution.calls.call({ ...defined, fn: (...given: unknown[]) => body.apply(self, given) }, args);
}

/** Makes a step of an arrow function, a function expression or an object member. */
export function step(names: Names, body: Body): Body {
  const call = function (this: unknown, ...args: unknown[]): Promise<unknown> {
    return callStep(call, names, body, this, args);
  };
  rename(call, body.name === "" ? lastNameOf(names) : body.name);
  Object.defineProperty(call, "length", { value: body.length, configurable: true });
  hoistedStep(call, names, body);
  return call;
}

/** Replaces a method of a class by a step. */
export function stepMethod(owner: object, key: string, names: Names): void {
  replace(owner, key, (body) => step(names, body));
}

/** Registers the function as a workflow and returns it unchanged. */
export function workflow(names: Names, where: string, fn: Body): Body {
  if (fn.name === "" || fn.name === unnamed) rename(fn, lastNameOf(names));
  return registerWorkflow(fn, { ...namesIn(names), fn, where });
}

/** Registers a method as a workflow. A static method runs with its class as `this`. */
export function workflowMethod(owner: object, key: string, names: Names, where: string): void {
  replace(owner, key, (body) => registerWorkflow(body, { ...namesIn(names), fn: (...args) => body.apply(owner, args), where }));
}

/** Records that several functions of one file had this id in an earlier version, including functions that are not registered yet. */
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
