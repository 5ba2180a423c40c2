import { InvalidInputError } from "../../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import { readingStore } from "../../process/ambient-store.js";
import type { InStore } from "../in-store.js";

/** One action in the operator log. */
export interface OperatorLogItem {
  /** Position in the log; later actions have larger numbers. */
  readonly no: number;
  readonly actionId: string;
  readonly at: Date;
  readonly actor: string;
  /** For example "retry". */
  readonly action: string;
  /** The run; for an action on a dead letter its id, on a flow `flow:` and its id. */
  readonly runId: string;
  readonly reason: string | undefined;
  /** What the action answered. */
  readonly answer: unknown;
}

/** Filters and paging of {@link readOperatorLog}. */
export interface OperatorLogOptions extends InStore {
  /** Only actions on this run, or on the dead letter or flow that `OperatorLogItem` names so. */
  readonly runId?: string;
  /** Only actions before this position: the `no` of the last item of the previous page. */
  readonly before?: number;
  /** Maximum number of items, from 1 to 1000. Default 100. */
  readonly limit?: number;
}

const optionNames: OptionNames<OperatorLogOptions> = { store: true, runId: true, before: true, limit: true };

/**
 * Reads the operator log, newest first: who has acted on runs, dead letters and flows, when, and why. It outlives them. Throws InvalidInputError if an option is invalid.
 *
 * @example
 * for (const { at, actor, action, reason } of await readOperatorLog({ runId: "order-1" })) console.log(at, actor, action, reason);
 */
export async function readOperatorLog(options: OperatorLogOptions = {}): Promise<OperatorLogItem[]> {
  knownOptions("readOperatorLog", options, optionNames);
  const { runId, before, limit = 100 } = options;
  if (!Number.isInteger(limit) || limit < 1 || limit > 1000) throw new InvalidInputError("limit", "must be a whole number from 1 to 1000");
  if (before !== undefined && !Number.isInteger(before)) throw new InvalidInputError("before", "must be the number of an item");
  const store = await readingStore(options.store);
  const query = { limit, ...(runId === undefined ? {} : { subject: runId }), ...(before === undefined ? {} : { before }) };
  return (await store.runs.log(query)).map(({ no, id, at, actor, action, subject, reason, detail }) => ({
    no,
    actionId: id,
    at: new Date(at),
    actor,
    action,
    runId: subject,
    reason: reason ?? undefined,
    answer: detail === null ? undefined : (JSON.parse(detail) as unknown),
  }));
}
