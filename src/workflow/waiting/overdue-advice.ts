import type { WorkerRecord } from "../../core/runs/run.js";

/** What the reader of the warning can do about due runs of this workflow that no worker has claimed. */
export function adviceOn(workflow: string, workers: readonly WorkerRecord[]): string {
  const live = workers.filter((worker) => worker.live);
  const [first, ...others] = live.filter(({ workflows }) => workflows.includes(workflow));
  if (first !== undefined) {
    const more = others.length > 0 ? ` and ${others.length} more` : "";
    return `A live worker has this workflow (${first.id}${more}) but may be full: raise its concurrency, or look at its warnings.`;
  }
  const none = "No live worker has this workflow: call configure({ worker: true }) or work(store) in a program that imports it.";
  if (!isRelativeToRoot(workflow)) return none;
  const namesake = namesakeOf(workflow, live);
  const found = namesake === undefined ? none : `A live worker has "${namesake}", which may be the same function under another id.`;
  return (
    `${found} The workflow id contains a file path relative to the working directory of the process, as all ids of version 0.1 do: ` +
    "start a worker from the folder that the earlier process was started from, or set ONCEFLOW_ROOT to that folder. " +
    "If a bundler compiles the worker, do this for the build."
  );
}

/** True for ids of the form `workflow//path//function`, without a package name: the path depends on the working directory of the process. */
function isRelativeToRoot(workflow: string): boolean {
  return workflow.startsWith("workflow//") && workflow.split("//").length === 3;
}

/** The id of a function with the same name in a file whose path has the same end. Ids with a package name are preferred. */
function namesakeOf(workflow: string, live: readonly WorkerRecord[]): string | undefined {
  const names = live.flatMap(({ workflows }) => workflows).filter((name) => isNamesake(workflow, name));
  return names.find((name) => !isRelativeToRoot(name)) ?? names[0];
}

function isNamesake(stored: string, name: string): boolean {
  if (!name.startsWith("workflow//")) return false;
  const [one, other] = [partsOf(stored), partsOf(name)];
  // Ids of version 0.1 do not contain the calls and branches that enclose a function.
  return endsIn(other.fn, one.fn) && (endsIn(one.path, other.path) || endsIn(other.path, one.path));
}

function partsOf(id: string): { readonly path: string; readonly fn: string } {
  const [path = "", fn = ""] = id.split("//").slice(-2);
  return { path: path.replace(/^(\.\.\/)+/, ""), fn };
}

function endsIn(path: string, end: string): boolean {
  return path === end || path.endsWith(`/${end}`);
}
