/** An entry of the operator log, which is append-only and outlives the runs that it is about. */
export interface LogEntry extends NewLogEntry {
  /** Position in the log; later entries have larger numbers. */
  readonly no: number;
  /** Time of the store. */
  readonly at: number;
}

/** An action, as it is written with the change that it makes. */
export interface NewLogEntry {
  /** Chosen by the caller. An action with an id that the log already has is not done again. */
  readonly id: string;
  /** Who acted: a person, or the program. */
  readonly actor: string;
  /** The action, such as "retry". */
  readonly action: string;
  /** The run that the action is about. */
  readonly subject: string;
  readonly reason: string | null;
  /** JSON: what was requested, and what the caller was answered. */
  readonly detail: string | null;
}

/** Query of the operator log: newest first. */
export interface LogQuery {
  readonly subject?: string;
  /** The action with this id. */
  readonly id?: string;
  /** Only entries before this position. */
  readonly before?: number;
  readonly limit: number;
}
