/** Warns that a journal entry of a run could not be written. `what` says what happens to the run. */
export function warnNotWritten(run: string, what: string): void {
  process.emitWarning(`run "${run}" ${what}`, { type: "OnceflowWarning", code: "ONCEFLOW_RUN_NOT_WRITTEN" });
}
