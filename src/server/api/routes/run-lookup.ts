import type { RunRecord } from "../../../core/runs/run.js";
import { requireRuns, type Store } from "../../../core/store/store.js";
import { HookNotFoundError, RunNotFoundError } from "../../../workflow/define/errors.js";
import { type ApiCaller, mayUse } from "../caller.js";

/** The run with this id. A run of a scope that is not the caller's is not found. */
export async function runFor(caller: ApiCaller, store: Store, id: string): Promise<RunRecord> {
  const run = await requireRuns(store).read(id);
  if (run === undefined || !mayUse(caller, run.scope)) throw new RunNotFoundError(id);
  return run;
}

/** Throws HookNotFoundError if no hook has the token, or its run belongs to a scope that is not the caller's. */
export async function requireHook(caller: ApiCaller, store: Store, token: string): Promise<void> {
  const hook = await requireRuns(store).hook(token);
  const run = hook && (await store.runs.read(hook.run));
  if (run === undefined || !mayUse(caller, run.scope)) throw new HookNotFoundError(token);
}
