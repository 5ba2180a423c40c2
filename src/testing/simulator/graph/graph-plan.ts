import type { FlowPlan } from "../../../graph/plan/plan.js";
import type { Random } from "../random.js";
import { weatherOf } from "../workflow/plan.js";
import type { RunWeather } from "../workflow/run-faults.js";
import { flowOf } from "./shape.js";

/** What comes in: the same key, and mostly the same payload, from several senders. */
export interface TriggerPlan {
  readonly key: string | undefined;
  readonly payload: { readonly id: string; readonly k: string; readonly lane: string; readonly n: number };
  readonly slot: number;
  readonly startMs: number;
}

/** Somebody who pauses the flow, and lets it go on. */
export interface PausePlan {
  readonly to: "paused" | "archived";
  readonly slot: number;
  readonly startMs: number;
  readonly forMs: number;
}

interface SlotPlan {
  /** Without work, the process only triggers. */
  readonly work: boolean;
  readonly concurrency: number;
}

interface BodyPlan {
  readonly msMax: number;
  readonly throwBefore: number;
  readonly throwAfter: number;
  readonly fatal: number;
  /** How likely a body is not to end in its time; and to go on although its signal has aborted. */
  readonly hang: number;
  readonly deaf: number;
  /** Node and id of a payload: always fails. */
  readonly poison: ReadonlySet<string>;
  /** Node and id of a payload: always kills its process. */
  readonly kills: ReadonlySet<string>;
}

/** What happens in a seed's world, drawn before it begins. */
export interface GraphPlan {
  readonly flow: FlowPlan;
  readonly leaseMs: number;
  readonly pollMs: number;
  readonly timeoutMs: number;
  readonly graceMs: number;
  readonly crashMax: number;
  readonly joinWaitMs: number;
  readonly onMismatch: "acknowledge" | "deadLetter";
  readonly slots: readonly SlotPlan[];
  readonly triggers: readonly TriggerPlan[];
  readonly pauses: readonly PausePlan[];
  readonly bodies: BodyPlan;
  readonly weather: RunWeather;
  /** How likely a person is to re-inject, or to discard, a dead letter at a look. */
  readonly reinject: number;
  readonly discard: number;
  readonly stormMs: number;
  readonly blowMs: number;
}

/** `deaths` is drawn from by itself, so that other draws of a seed stay as they are. */
export async function graphPlanOf(random: Random, deaths: Random): Promise<GraphPlan> {
  const leaseMs = random.pick([100, 300, 1000]);
  const flow = await flowOf(random, leaseMs);
  const slots = Array.from({ length: random.between(1, 3) }, (_, i): SlotPlan => {
    return { work: i === 0 || random.chance(0.85), concurrency: random.pick([1, 2, 10, 10]) };
  });
  const somewhere = () => random.between(0, slots.length - 1);
  const ids = random.between(1, 4);
  const triggers = Array.from({ length: random.between(1, 6) }, (_, i): TriggerPlan[] => {
    const id = `i${random.between(1, ids)}`;
    const payload = { id, k: `k${random.between(1, 2)}`, lane: `l${random.between(1, 2)}`, n: random.between(0, 3) };
    const key = random.chance(0.8) ? `t${i}` : undefined;
    const copies = key === undefined ? 1 : random.between(1, 3);
    return Array.from({ length: copies }, (_, copy) => ({
      key,
      payload: copy > 0 && random.chance(0.1) ? { ...payload, n: 3 - payload.n } : payload,
      slot: somewhere(),
      startMs: random.between(0, leaseMs * 4),
    }));
  }).flat();
  const weather = weatherOf(random, leaseMs);
  const bad = (max: number) => (random.chance(0.5) ? random.next() * max : 0);
  const poison = new Set(
    [...flow.nodes.keys()].flatMap((node) => Array.from({ length: ids }, (_, i) => `${node}:i${i + 1}`).filter(() => random.chance(0.04))),
  );
  const plan: GraphPlan = {
    flow,
    leaseMs,
    pollMs: random.pick([leaseMs / 5, leaseMs]),
    timeoutMs: leaseMs * random.between(1, 6),
    graceMs: random.pick([0, leaseMs]),
    crashMax: random.pick([1, 10]),
    joinWaitMs: random.pick([leaseMs * 20, 10_000_000]),
    onMismatch: random.pick(["acknowledge", "acknowledge", "deadLetter"]),
    slots,
    triggers,
    pauses: random.chance(0.3) ? [pauseOf(random, leaseMs, somewhere(), weather)] : [],
    bodies: {
      msMax: random.pick([5, leaseMs, leaseMs * 2]),
      throwBefore: bad(0.2),
      throwAfter: bad(0.2),
      fatal: bad(0.3),
      hang: bad(0.1),
      deaf: random.pick([0, 0.5, 1]),
      poison,
      kills: new Set(),
    },
    weather,
    reinject: bad(1),
    discard: bad(0.3),
    stormMs: random.between(leaseMs * 3, leaseMs * 12),
    blowMs: random.pick([leaseMs, leaseMs * 4, leaseMs * 1000]),
  };
  if (plan.crashMax > 1 || !deaths.chance(0.3)) return plan;
  const kills = new Set([`${deaths.pick([...flow.nodes.keys()])}:i${deaths.between(1, ids)}`]);
  return { ...plan, bodies: { ...plan.bodies, kills } };
}

/**
 * A trigger that was given up, and comes when the flow is not archived any more, is one that its sender was told is refused:
 * where requests come late, flows are only paused.
 */
function pauseOf(random: Random, leaseMs: number, slot: number, { late }: RunWeather): PausePlan {
  const to = random.chance(0.7) || late > 0 ? "paused" : "archived";
  return { to, slot, startMs: random.between(0, leaseMs * 4), forMs: random.between(0, leaseMs * 4) };
}
