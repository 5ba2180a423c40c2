import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";

/** Options of `deliverTwice`. */
export interface DeliverTwiceOptions {
  /**
   * `"concurrent"` (default): both deliveries run at the same time, like two copies of a message that two consumers
   * receive. `"sequential"`: the second delivery begins after the first one has ended, like a retry after a lost reply.
   */
  readonly mode?: "concurrent" | "sequential";
}

const optionNames: OptionNames<DeliverTwiceOptions> = { mode: true };

/**
 * Delivers the same work twice and returns both results. It works with every front end, because the callback makes the
 * delivery: an HTTP request, a message for an inbox, a packet for a node, the start of a run, or a call of `once` or of a flow.
 * Afterwards, count the effects at the provider (`EffectLedger`): equal results alone do not prove that the effect happened once.
 *
 * @throws The error of a delivery. In concurrent mode both deliveries end first; in sequential mode there is no second delivery
 *   if the first one fails. InvalidInputError when `deliver` is not a function or an option is invalid.
 *
 * @example
 * const [first, second] = await deliverTwice(() => inbox.handle(message, handler));
 * first.status === "processed" && second.status === "duplicate";
 */
export async function deliverTwice<T>(deliver: () => Promise<T> | T, options: DeliverTwiceOptions = {}): Promise<[first: T, second: T]> {
  if (typeof deliver !== "function") throw new InvalidInputError("deliverTwice", "needs a function that makes one delivery");
  knownOptions("deliverTwice", options, optionNames);
  const { mode = "concurrent" } = options;
  if (mode === "sequential") return [await deliver(), await deliver()];
  if (mode !== "concurrent") throw new InvalidInputError("deliverTwice: mode", 'must be "concurrent" or "sequential"');
  const [first, second] = await Promise.allSettled([0, 1].map(async () => await deliver()));
  return [resultOf(first), resultOf(second)];
}

function resultOf<T>(settled: PromiseSettledResult<T> | undefined): T {
  if (settled?.status !== "fulfilled") throw settled?.reason;
  return settled.value;
}
