import type { Store } from "../core/store/store.js";
import type { ActionResult } from "../workflow/client/actions/action.js";
import { cancel, fork, type Operator, pause, remove, resolve, resume, retry, type StepToResolve, terminate, wake } from "./runs.js";

/** The actions on one run, by name: what a command line or a request names. The options are checked by the functions. */
const runActions = {
  cancel,
  terminate,
  pause,
  resume,
  wake,
  retry,
  fork,
  delete: remove,
  resolve: resolveStep,
} as const satisfies Readonly<Record<string, (store: Store, run: string, options: never) => Promise<object>>>;

async function resolveStep(
  store: Store,
  run: string,
  { stepId, attempt, as, ...options }: StepToResolve & Operator & { readonly reason: string },
): Promise<ActionResult> {
  return await resolve(store, run, { stepId, attempt, as }, options);
}

export type RunAction = keyof typeof runActions;

/** Does an action by its name. */
export async function actOnRun(
  store: Store,
  action: RunAction,
  run: string,
  options: Operator & Readonly<Record<string, unknown>>,
): Promise<ActionResult & Readonly<Record<string, unknown>>> {
  return (await runActions[action](store, run, options as never)) as unknown as ActionResult & Readonly<Record<string, unknown>>;
}
