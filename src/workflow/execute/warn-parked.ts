/** Runs that were warned of, by worker: a run that is tried again every minute has one trouble, not many. */
const warned = new WeakMap<object, Set<string>>();
const warnedMax = 10_000;

export interface Parked {
  readonly id: string;
  readonly status: "diverged" | "parked";
  readonly trouble: string;
}

/** Code that awaits the result of the run hears nothing else of it. Once per run and worker. */
export function warnParked(worker: object, { id, status, trouble }: Parked): void {
  const ids = warned.get(worker) ?? new Set();
  warned.set(worker, ids);
  if (ids.has(id) || ids.size >= warnedMax) return;
  ids.add(id);
  process.emitWarning(`run "${id}" is set aside by this worker (status "${status}"): ${trouble}`, {
    type: "OnceflowWarning",
    code: "ONCEFLOW_RUN_PARKED",
  });
}
