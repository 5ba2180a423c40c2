/** Which sleeps of a run `run.wakeUp` ends. */
export interface StopSleepOptions {
  /** Ids of sleeps, such as "sleep#0". Default: all sleeps of the run, or none of a parked or diverged run, which is only retried. */
  readonly correlationIds?: readonly string[];
}

/** Result of `run.wakeUp`. */
export interface StopSleepResult {
  /** Number of sleeps that were ended. */
  readonly stoppedCount: number;
}
