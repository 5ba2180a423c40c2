import { InvalidInputError } from "../errors/errors.js";
import { checkName } from "../ledger/key.js";
import { checkStorable } from "../values/storable-text.js";

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
  /** The run that the action is about; the id of a dead letter, or `flow:` and the id of a flow. */
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

/** Of a store, inside the commit of an action. */
export interface OperatorLog {
  /** The action with this id. */
  logged(id: string): LogEntry | undefined;
  /** Called for an id that the log does not have. */
  insertLog(entry: NewLogEntry): LogEntry;
}

const textCharsMax = 2000;

export function checkActionId(id: unknown): void {
  checkName("actionId", id);
}

export function checkText(what: string, text: unknown): void {
  if (typeof text !== "string" || text === "" || text.length > textCharsMax)
    throw new InvalidInputError(what, `must be a text of 1 to ${textCharsMax} characters`);
  checkStorable(what, text);
}

/** Throws InvalidInputError if the id that an action has been sent with belongs to another action. */
export function checkSame(entry: LogEntry, { action, subject }: Pick<LogEntry, "action" | "subject">): void {
  if (entry.action === action && entry.subject === subject) return;
  throw new InvalidInputError("actionId", `was used before, for "${entry.action}" of "${entry.subject}"; use a new id for a new action`);
}
