/** Warns that the store does not take what a run has to write. `what` says what becomes of the run. */
export function warnNotWritten(run: string, what: string): void {
  process.emitWarning(`run "${run}" ${what}`, { type: "OnceflowWarning", code: "ONCEFLOW_RUN_NOT_WRITTEN" });
}
