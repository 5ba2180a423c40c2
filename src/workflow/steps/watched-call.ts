import type { Site } from "../define/call-site.js";
import type { StepDefinition } from "../define/definition.js";
import type { StepPromise } from "./step-promise.js";

/** A call whose promise the code may look at, or forget. */
export interface WatchedCall {
  readonly id: string;
  readonly definition: StepDefinition;
  readonly promise: StepPromise<unknown>;
  /** Where the code called it, until the code has looked at its promise. */
  site: Site | undefined;
  /** What its promise was rejected with, encoded. */
  readonly rejection: string | undefined;
}
