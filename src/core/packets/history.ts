import { OnceflowError } from "../errors/errors.js";

/** One attempt at a packet that failed. */
export interface HistoryEntry {
  readonly attempt: number;
  /** When it began, ms since 1970 by the clock of the process. */
  readonly at: number;
  readonly ms: number;
  readonly code: string;
  readonly message: string;
}

/** What is kept of a failure; what else is known of it serves to judge it. */
interface Failed extends Pick<HistoryEntry, "code" | "message"> {
  readonly final?: boolean;
}

/** Of an endless story the beginning and the end are kept. */
const entriesMax = 50;
const messageMax = 2000;

export function historyOf(text: string | null): readonly HistoryEntry[] {
  return text === null ? [] : (JSON.parse(text) as HistoryEntry[]);
}

export function withFailure(text: string | null, { code, message }: Failed, about: Omit<HistoryEntry, "code" | "message">): string {
  const before = historyOf(text);
  const kept = before.length < entriesMax ? before : [...before.slice(0, 1), ...before.slice(2 - entriesMax)];
  return JSON.stringify([...kept, { ...about, code, message }]);
}

/** What was thrown, as it is kept: no stack, and of a stranger's error only its message. */
export function thrown(error: unknown): Pick<HistoryEntry, "code" | "message"> {
  return { code: error instanceof OnceflowError ? error.code : "ERROR", message: textOf(error).slice(0, messageMax).toWellFormed() };
}

/** Anything can be thrown, also what has no text. */
function textOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error);
  } catch {
    return `something of type ${typeof error} was thrown, which cannot be told`;
  }
}
