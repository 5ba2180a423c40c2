/** Which sleeps of a run `run.wakeUp` ends. */
export interface StopSleepOptions {
  /** The ids of sleeps as the journal has them, such as "sleep#0". Default: all sleeps of the run; none of a run that is parked or diverged, which is tried again. */
  readonly correlationIds?: readonly string[];
}

export interface StopSleepResult {
  /** How many sleeps were ended. */
  readonly stoppedCount: number;
}
