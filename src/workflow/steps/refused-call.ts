import { encodeError } from "../../core/values/stored-error.js";
import type { Site } from "../define/call-site.js";
import type { StepDefinition } from "../define/definition.js";
import { StepMismatchError } from "../define/errors.js";
import { StepPromise } from "./step-promise.js";
import type { WatchedCall } from "./watched-call.js";

/** A rejected call: its key belongs to an earlier call with other arguments. If the code does not observe the rejection, the run fails. */
export class RefusedCall implements WatchedCall {
  readonly id: string;
  readonly definition: StepDefinition;
  readonly promise: StepPromise<never>;
  readonly rejection: string;
  site: Site | undefined;

  constructor(definition: StepDefinition, id: string) {
    const error = new StepMismatchError(definition.name, id.slice(definition.name.length + 1));
    this.id = id;
    this.definition = definition;
    this.rejection = encodeError(error, { stack: true });
    this.promise = new StepPromise((_, reject) => reject(error));
    this.promise.ignoreRejection();
  }
}
