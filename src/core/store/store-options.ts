import { InvalidInputError } from "../errors/errors.js";
import { oneOf } from "../ledger/options.js";
import type { EncryptionOptions } from "../values/cipher.js";
import { type Clock, systemClock } from "../work/clock.js";
import type { Backend } from "./store.js";

/** Options that every store has. */
export interface StoreOptions {
  /** Local clock. Default: the system's clock. Tests can replace it. */
  readonly clock?: Clock;
  /** Maximum size of an encoded result. A larger result is not stored, but its key still completes. Default 4 MiB. */
  readonly valueBytesMax?: number;
  /**
   * Encoded values of a run (input, output, step results, hook payloads) that are larger than this are stored beside the
   * journal. 0: all values are stored in the journal. Default 256 KiB.
   */
  readonly asideBytes?: number;
  /** Maximum number of chunks that one writer (a step call or the workflow function) may write to one stream. Default 1,000,000. */
  readonly streamChunksMax?: number;
  /** "all": replays and refusals are written to the audit log, not only counted. Default "attempts". */
  readonly audit?: "attempts" | "all";
  /**
   * Interval of the background purge of expired data. 0: no background purge. Default one minute, or 0 if the database removes
   * expired data itself.
   */
  readonly purgeEveryMs?: number;
  /** Encrypts stored values: results, errors, inputs, journals. Default: values are not encrypted. */
  readonly encryption?: EncryptionOptions;
}

/** The options of a store, checked and with defaults. Without `encryption`, which wraps the backend before. */
export type StoreSettings = Required<Omit<StoreOptions, "encryption">>;

export function settingsOf(options: StoreOptions, { removesByItself }: Pick<Backend, "removesByItself">): StoreSettings {
  const {
    clock = systemClock,
    valueBytesMax = 4 * 1024 * 1024,
    asideBytes = 256 * 1024,
    streamChunksMax = 1_000_000,
    audit = "attempts",
    purgeEveryMs = removesByItself ? 0 : 60_000,
  } = options;
  if (!Number.isSafeInteger(streamChunksMax) || streamChunksMax < 1)
    throw new InvalidInputError("streamChunksMax", `must be a whole number of at least 1, not ${String(streamChunksMax)}`);
  oneOf("audit", audit, ["attempts", "all"]);
  if (!Number.isSafeInteger(asideBytes) || asideBytes < 0)
    throw new InvalidInputError(
      "asideBytes",
      `must be a whole number of bytes, or 0 to store all values in the journal, not ${String(asideBytes)}`,
    );
  return { clock, valueBytesMax, asideBytes, streamChunksMax, audit, purgeEveryMs };
}
