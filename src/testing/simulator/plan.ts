import { type Key, key } from "../../core/ledger/key.js";
import { type EffectClass, effectClasses } from "../../core/ledger/record.js";
import type { Weather } from "./faults.js";
import type { Random } from "./random.js";

interface KeyPlan {
  readonly key: Key;
  readonly effect: EffectClass;
  readonly input: { readonly order: string };
  readonly keepFailures: boolean;
}

export interface CallerPlan {
  readonly target: KeyPlan;
  /** Uses a different input under the same key: must be rejected. */
  readonly otherInput: boolean;
  /** The slot of the first try. */
  readonly slot: number;
  readonly startMs: number;
  readonly leaseMs: number;
  readonly onRunning: "wait" | "return" | "throw";
}

/** What happens in the world of a seed, drawn before the world starts. */
export interface Plan {
  readonly weather: Weather;
  readonly keys: readonly KeyPlan[];
  readonly callers: readonly CallerPlan[];
  readonly slots: number;
  readonly leaseMsMax: number;
  /** Probabilities that a handler throws before or after its effect, and its longest duration. */
  readonly throwBefore: number;
  readonly throwAfter: number;
  readonly handlerMsMax: number;
}

export function planOf(random: Random): Plan {
  const slots = random.between(1, 4);
  const leaseMsMax = random.pick([100, 300, 1000]);
  const keys = Array.from({ length: random.between(1, 4) }, (_, i): KeyPlan => {
    return { key: key.of(`k${i}`), effect: random.pick(effectClasses), input: { order: `o${i}` }, keepFailures: random.chance(0.3) };
  });
  const callers = Array.from({ length: random.between(2, 12) }, (): CallerPlan => {
    return {
      target: random.pick(keys),
      otherInput: random.chance(0.08),
      slot: random.between(0, slots - 1),
      startMs: random.between(0, leaseMsMax * 3),
      leaseMs: random.pick([leaseMsMax, Math.ceil(leaseMsMax / 2)]),
      onRunning: random.pick(["wait", "wait", "return", "throw"]),
    };
  });
  const bad = () => (random.chance(0.5) ? random.next() * 0.12 : 0);
  return {
    slots,
    leaseMsMax,
    keys,
    callers,
    throwBefore: bad(),
    throwAfter: bad(),
    handlerMsMax: random.pick([5, leaseMsMax, leaseMsMax * 3]),
    weather: {
      crashBefore: bad(),
      crashAfter: bad(),
      loseRequest: bad(),
      loseReply: bad(),
      unreachable: bad(),
      pause: bad(),
      pauseMsMax: leaseMsMax * 4,
      latencyMsMax: random.pick([0, 3, Math.ceil(leaseMsMax / 3)]),
    },
  };
}
