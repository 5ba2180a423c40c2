/**
 * replaying: the code gets deliveries from the journal. live: the replay is over, and steps run. returning: the run is being
 * released before its replay was complete, and does nothing else.
 */
export type ExecutionState = "replaying" | "live" | "returning";
