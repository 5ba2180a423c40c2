import { InvalidInputError } from "../../core/errors/errors.js";
import { checkName } from "../../core/ledger/key.js";
import { randomText } from "../../core/values/random-text.js";

/** Begins with the time, so that ids of new runs are neighbours in the store's index and touch few of its pages. */
export function newRunId(): string {
  return `run_${Date.now().toString(36).padStart(9, "0")}${randomText(12)}`;
}

export function checkId(id: unknown): void {
  try {
    checkName("key", id);
  } catch (error) {
    if (error instanceof InvalidInputError) throw new InvalidInputError("id", error.message.replace(/^key: /, ""));
    throw error;
  }
}
