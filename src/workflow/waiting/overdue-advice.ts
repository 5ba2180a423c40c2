import type { WorkerRecord } from "../../core/runs/run.js";

/** What to do about runs of this workflow that no worker has claimed, although they are due. */
export function adviceOn(workflow: string, workers: readonly WorkerRecord[]): string {
  const live = workers.filter((worker) => worker.live);
  const [first, ...others] = live.filter(({ workflows }) => workflows.includes(workflow));
  if (first !== undefined) {
    const more = others.length > 0 ? ` and ${others.length} more` : "";
    return `A live worker has this workflow (${first.id}${more}): it may have no room; raise its concurrency, or look at its warnings.`;
  }
  const none = "No live worker has this workflow: call configure({ worker: true }) or work(store) in a program that imports it.";
  if (!isRelativeToRoot(workflow)) return none;
  const namesake = namesakeOf(workflow, live);
  const found = namesake === undefined ? none : `A live worker has "${namesake}", which may be the same function under another id.`;
  return (
    `${found} The id of the run has the path of the file from the folder that the process was started from, as all ids of version 0.1 have: ` +
    "start a worker from the folder that the earlier process was started from, or set ONCEFLOW_ROOT to that folder. " +
    "Where a bundler compiles the worker, that holds for the build."
  );
}

/** `workflow//path//function`, without the name of a package: the path depends on the folder that the process was started from. */
function isRelativeToRoot(workflow: string): boolean {
  return workflow.startsWith("workflow//") && workflow.split("//").length === 3;
}

/** A function of the same name in a file whose path ends in the same way. An id with the name of its package comes first. */
function namesakeOf(workflow: string, live: readonly WorkerRecord[]): string | undefined {
  const names = live.flatMap(({ workflows }) => workflows).filter((name) => isNamesake(workflow, name));
  return names.find((name) => !isRelativeToRoot(name)) ?? names[0];
}

function isNamesake(stored: string, name: string): boolean {
  if (!name.startsWith("workflow//")) return false;
  const [one, other] = [placeOf(stored), placeOf(name)];
  // Ids of version 0.1 do not have the calls and branches around a function.
  return endsIn(other.fn, one.fn) && (endsIn(one.path, other.path) || endsIn(other.path, one.path));
}

function placeOf(id: string): { readonly path: string; readonly fn: string } {
  const [path = "", fn = ""] = id.split("//").slice(-2);
  return { path: path.replace(/^(\.\.\/)+/, ""), fn };
}

function endsIn(path: string, end: string): boolean {
  return path === end || path.endsWith(`/${end}`);
}
