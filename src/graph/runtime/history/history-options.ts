import { InvalidInputError } from "../../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import { oneOf } from "../../../core/ledger/options.js";
import { isPlainObject } from "../../../core/values/plain-object.js";

/**
 * What the history of an execution keeps of each delivery: nothing; packet, node, attempt, times, verdict and code of the error; or also
 * input, output and the message of the error.
 */
export type HistoryLevel = "none" | "timing" | "full";

/** Options of the history of executions. */
export interface HistoryOptions {
  /** Default "none". */
  readonly level?: HistoryLevel;
  /** Levels of single flows, by id. */
  readonly flows?: Readonly<Record<string, HistoryLevel>>;
  /** Maximum number of entries of one execution. The entry after the last one says that the history is full. Default 1,000. */
  readonly entriesMax?: number;
  /** Maximum bytes that are kept of each input, output and sent packet. Default 4 KiB. */
  readonly valueBytesMax?: number;
}

/** The checked options. */
export interface HistorySettings {
  readonly entriesMax: number;
  readonly valueBytesMax: number;
  levelOf(flow: string): HistoryLevel;
}

const levels: readonly HistoryLevel[] = ["none", "timing", "full"];
const optionNames: OptionNames<HistoryOptions> = { level: true, flows: true, entriesMax: true, valueBytesMax: true };
const entriesLimit = 10_000;
const bytesLimit = 65_536;

export function historySettings(given: HistoryLevel | HistoryOptions = "none"): HistorySettings {
  if (typeof given !== "string" && !isPlainObject(given))
    throw new InvalidInputError("history", 'must be "none", "timing", "full", or an object such as { level: "timing", entriesMax: 500 }');
  const options: HistoryOptions = typeof given === "string" ? { level: given } : given;
  knownOptions("history", options, optionNames);
  const { level = "none", flows = {}, entriesMax = 1000, valueBytesMax = 4096 } = options;
  oneOf("history.level", level, levels);
  if (!isPlainObject(flows)) throw new InvalidInputError("history.flows", 'must be an object such as { orders: "full" }');
  const byFlow = new Map(Object.entries(flows));
  for (const [flow, of] of byFlow) oneOf(`history.flows.${flow}`, of, levels);
  whole("history.entriesMax", entriesMax, entriesLimit);
  whole("history.valueBytesMax", valueBytesMax, bytesLimit);
  return { entriesMax, valueBytesMax, levelOf: (flow) => byFlow.get(flow) ?? level };
}

function whole(field: string, value: unknown, max: number): void {
  if (typeof value !== "number" || !Number.isInteger(value) || value < 1 || value > max)
    throw new InvalidInputError(field, `must be a whole number from 1 to ${max}, not ${String(value)}`);
}
