import { InvalidInputError } from "../errors/errors.js";
import { oneOf } from "../ledger/options.js";
import type { EncryptionOptions } from "../values/cipher.js";
import { type Clock, systemClock } from "../work/clock.js";
import type { Backend } from "./store.js";

export interface StoreOptions {
  readonly clock?: Clock;
  /** Bytes of an encoded result beyond which it is not kept (the key still completes). Default 4 MiB. */
  readonly valueBytesMax?: number;
  /**
   * Bytes of an encoded value of a run (its input and output, results of steps, payloads of hooks) beyond which it is kept
   * beside the journal. 0: never. Default 256 KiB.
   */
  readonly asideBytes?: number;
  /** Chunks that one writer, the call of a step or a workflow's code, may write to one stream. Default 1,000,000. */
  readonly streamChunksMax?: number;
  /** "all": replays and refusals are logged too, not only counted. Default "attempts". */
  readonly audit?: "attempts" | "all";
  /** How often what is over is removed; 0: never by itself. Default one minute; 0 where the database does it by itself. */
  readonly purgeEveryMs?: number;
  /** Encrypts what is kept: results, errors, inputs, journals. Default: it is stored in the clear. */
  readonly encryption?: EncryptionOptions;
}

/** The options of a store, checked and with their defaults. Encryption is part of the backend by then. */
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
    throw new InvalidInputError("streamChunksMax", `must be a whole number from 1 on, not ${String(streamChunksMax)}`);
  oneOf("audit", audit, ["attempts", "all"]);
  if (!Number.isSafeInteger(asideBytes) || asideBytes < 0)
    throw new InvalidInputError("asideBytes", `must be a whole number of bytes, or 0 for never, not ${String(asideBytes)}`);
  return { clock, valueBytesMax, asideBytes, streamChunksMax, audit, purgeEveryMs };
}
