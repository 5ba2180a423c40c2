import type { Entry, HookChange } from "../operation.js";
import type { RunTable } from "./table.js";

export function changeHooks(table: RunTable, run: string, changes: readonly HookChange[]): void {
  for (const change of changes) {
    if ("drop" in change) table.removeHook(run, change.drop);
    else table.insertHook({ token: change.add, run, about: change.about, metadata: change.metadata, createdAt: table.now() });
  }
}

/**
 * The tokens that an entry requested for its hooks but did not get. Computed from the entry and the hooks after it, so that an
 * append that is sent again gets the same answer.
 */
export function conflictsAfter(table: Pick<RunTable, "hook">, run: string, entry: Entry | undefined): readonly string[] {
  if (entry === undefined || entry.hooks.length === 0) return none;
  return entry.hooks.flatMap((change, i, changes) => {
    if (!("add" in change)) return [];
    const hook = table.hook(change.add);
    // Created and removed again by this same entry.
    const brief = entry.then.kind === "end" || changes.slice(i).some((later) => "drop" in later && later.drop === change.add);
    const made = hook === undefined ? brief : hook.run === run && (brief || hook.about === change.about);
    return made ? [] : [change.add];
  });
}

const none: readonly string[] = [];
