/** Runs that were warned about, by worker: a run that is retried every minute causes one warning, not many. */
const warned = new WeakMap<object, Set<string>>();
const warnedMax = 10_000;

export interface Parked {
  readonly id: string;
  readonly status: "diverged" | "parked";
  readonly trouble: string;
}

/** Warns once per run and worker, because code that awaits the result of the run gets no error. */
export function warnParked(worker: object, { id, status, trouble }: Parked): void {
  const ids = warned.get(worker) ?? new Set();
  warned.set(worker, ids);
  if (ids.has(id) || ids.size >= warnedMax) return;
  ids.add(id);
  process.emitWarning(`this worker sets run "${id}" aside (status "${status}"): ${trouble}`, {
    type: "OnceflowWarning",
    code: "ONCEFLOW_RUN_PARKED",
  });
}
