import type { Entry } from "./operation.js";
import type { HookRecord } from "./run.js";

/**
 * The tokens that an entry wanted for its hooks and did not get. From the entry and the hooks as they are after it, so
 * that an append that is sent again is told the same.
 */
export function conflictsOf<Run>(
  entry: Entry | undefined,
  run: Run,
  hookOf: (token: string) => { readonly run: Run; readonly about: HookRecord["about"] } | undefined,
): readonly string[] {
  if (entry === undefined || entry.hooks.length === 0) return none;
  return entry.hooks.flatMap((change, i, changes) => {
    if (!("add" in change)) return [];
    const hook = hookOf(change.add);
    // Made and gone again within this very entry.
    const brief = entry.then.kind === "end" || changes.slice(i).some((later) => "drop" in later && later.drop === change.add);
    const made = hook === undefined ? brief : hook.run === run && (brief || hook.about === change.about);
    return made ? [] : [change.add];
  });
}

const none: readonly string[] = [];
