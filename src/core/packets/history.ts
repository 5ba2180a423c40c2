import { OnceflowError } from "../errors/errors.js";

/** One failed attempt to deliver a packet. */
export interface HistoryEntry {
  readonly attempt: number;
  /** When the attempt began: milliseconds since 1970 on the clock of its process. */
  readonly at: number;
  /** How long the attempt took. */
  readonly ms: number;
  /** Code of the error; `ERROR` if it has none. */
  readonly code: string;
  readonly message: string;
}

/** A failure. Only its code and message are stored. */
interface Failed extends Pick<HistoryEntry, "code" | "message"> {
  readonly final?: boolean;
}

/** Of a longer history the first entry and the newest ones are kept. */
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

/** Code and message of a thrown error for the history: no stack, and `ERROR` as the code of errors that are not OnceflowErrors. */
export function thrown(error: unknown): Pick<HistoryEntry, "code" | "message"> {
  return { code: error instanceof OnceflowError ? error.code : "ERROR", message: textOf(error).slice(0, messageMax).toWellFormed() };
}

/** Never throws: a thrown value may fail to convert to a string. */
function textOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error);
  } catch {
    return `a value of type ${typeof error} was thrown that cannot be converted to text`;
  }
}
