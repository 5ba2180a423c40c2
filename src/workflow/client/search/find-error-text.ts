import { InvalidInputError } from "../../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import { checkName } from "../../../core/ledger/key.js";
import { positionOf, type RunPosition } from "../../../core/runs/search/filter.js";
import { readingStore } from "../../process/ambient-store.js";
import type { InStore } from "../in-store.js";
import { checkedTime, checkLimit, filterOf } from "./filters.js";
import { type RunSummary, readCursor, summaryOf, writeCursor } from "./list-runs.js";

/** Options of {@link findRunsByErrorText}. */
export interface ErrorTextOptions extends InStore {
  /** Text in the message of the error. Upper and lower case are the same. At most 200 characters. */
  readonly text: string;
  /** The runs were created at this time or later. */
  readonly createdAfter: Date;
  /** The runs were created before this time, at most 31 days later. */
  readonly createdBefore: Date;
  readonly workflow?: string;
  readonly scope?: string;
  /** Maximum number of runs in the answer, from 1 to 1000. Default 100. */
  readonly limit?: number;
  /** The `cursor` of the previous answer. */
  readonly cursor?: string;
}

/** Answer of {@link findRunsByErrorText}. */
export interface ErrorTextPage {
  readonly items: readonly RunSummary[];
  /** Whether every failed run of the window was read. If not, `cursor` goes on: also if there are no items. */
  readonly isComplete: boolean;
  /** How many failed runs this call has read. */
  readonly scanned: number;
  readonly cursor: string | undefined;
}

const names: OptionNames<ErrorTextOptions> = {
  store: true,
  text: true,
  createdAfter: true,
  createdBefore: true,
  workflow: true,
  scope: true,
  limit: true,
  cursor: true,
};

const windowMsMax = 31 * 86_400_000;
const textLengthMax = 200;
const batch = 200;
/** One call reads no more failed runs than this. */
const scannedMax = 5000;

/**
 * Finds failed runs by a text in the message of their error, newest first. No index has the messages, so the failed runs of a window of at most 31 days
 * are read, at most 5000 in a call: the answer says whether that was all. Throws InvalidInputError if an option is invalid.
 *
 * @example
 * const day = { createdAfter: new Date("2026-11-18"), createdBefore: new Date("2026-11-19") };
 * const { items, isComplete } = await findRunsByErrorText({ text: "card declined", ...day });
 */
export async function findRunsByErrorText(options: ErrorTextOptions): Promise<ErrorTextPage> {
  knownOptions("findRunsByErrorText", options, names);
  const { text, createdAfter, createdBefore, workflow, scope, limit = 100, cursor } = options;
  if (typeof text !== "string" || text === "" || text.length > textLengthMax)
    throw new InvalidInputError("text", `must be a text of 1 to ${textLengthMax} characters`);
  checkLimit(limit);
  const [from, to] = [checkedTime("createdAfter", createdAfter), checkedTime("createdBefore", createdBefore)];
  if (to <= from || to - from > windowMsMax)
    throw new InvalidInputError(
      "createdBefore",
      "must be after createdAfter, and at most 31 days later: every failed run in between is read",
    );
  if (scope !== undefined) checkName("scope", scope);
  const filter = filterOf("findRunsByErrorText", {
    status: "failed",
    createdAfter,
    createdBefore,
    ...(workflow === undefined ? {} : { workflow }),
    ...(scope === undefined ? {} : { scope }),
  });
  const store = await readingStore(options.store);
  const wanted = text.toLowerCase();
  const items: RunSummary[] = [];
  let after: RunPosition | undefined = cursor === undefined ? undefined : readCursor(cursor, "created");
  for (let scanned = 0; ; ) {
    const size = Math.min(batch, scannedMax - scanned);
    const runs = await store.runs.list({ ...filter, ...(after === undefined ? {} : { after }), limit: size });
    for (const run of runs) {
      scanned += 1;
      after = positionOf(run, "created");
      const summary = await summaryOf(store, run);
      if (summary.error?.message.toLowerCase().includes(wanted)) items.push(summary);
      if (items.length === limit) return { items, isComplete: false, scanned, cursor: writeCursor(after, "created") };
    }
    if (runs.length < size) return { items, isComplete: true, scanned, cursor: undefined };
    if (scanned >= scannedMax && after !== undefined) return { items, isComplete: false, scanned, cursor: writeCursor(after, "created") };
  }
}
