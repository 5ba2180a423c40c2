import type { ActionOptions, ActionResult } from "../../../workflow/client/actions/action.js";
import type { KnownRun } from "./known-run.js";

/** One action of an operator, which may be sent several times. */
export interface OperatorAction {
  readonly name: string;
  readonly run: KnownRun;
  readonly force?: readonly string[];
  readonly send: (options: ActionOptions) => Promise<ActionResult>;
  /** Called when the action is known to be done. */
  readonly onDone?: () => void;
  /** What the operator does after a refusal. */
  readonly after?: (refusal: Error) => OperatorAction | undefined;
}
