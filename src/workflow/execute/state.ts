/**
 * replaying: the code gets what the journal has. live: from here on things happen. returning: on its way back to the store
 * before its replay was over; nothing more is done here.
 */
export type ExecutionState = "replaying" | "live" | "returning";
