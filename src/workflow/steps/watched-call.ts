import type { Site } from "../define/call-site.js";
import type { StepDefinition } from "../define/definition.js";
import type { StepPromise } from "./step-promise.js";

/** A call whose promise the code may observe or forget. */
export interface WatchedCall {
  readonly id: string;
  readonly definition: StepDefinition;
  readonly promise: StepPromise<unknown>;
  /** Where the code called the step; cleared when the code observes the promise. */
  site: Site | undefined;
  /** The error of its promise, encoded. */
  readonly rejection: string | undefined;
}
