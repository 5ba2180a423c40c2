import type { FlowPlan } from "../../../graph/plan/plan.js";
import type { Random } from "../random.js";
import { weatherOf } from "../workflow/plan.js";
import type { RunWeather } from "../workflow/run-faults.js";
import { flowOf } from "./shape.js";

/** A trigger. Several senders may use the same key, mostly with the same payload. */
export interface TriggerPlan {
  readonly key: string | undefined;
  readonly payload: { readonly id: string; readonly k: string; readonly lane: string; readonly n: number };
  readonly slot: number;
  readonly startMs: number;
}

/** An operator who pauses or archives the flow and resumes it after `forMs`. */
export interface PausePlan {
  readonly to: "paused" | "archived";
  readonly slot: number;
  readonly startMs: number;
  readonly forMs: number;
}

interface SlotPlan {
  /** Whether the process has a worker. Without one it only triggers. */
  readonly work: boolean;
  readonly concurrency: number;
}

interface BodyPlan {
  readonly msMax: number;
  readonly throwBefore: number;
  readonly throwAfter: number;
  readonly fatal: number;
  /** Probability that a node call exceeds its timeout. */
  readonly hang: number;
  /** Probability that a node call continues after its signal has aborted. */
  readonly ignoresAbort: number;
  /** `node:payloadId` of calls that always fail. */
  readonly poison: ReadonlySet<string>;
  /** `node:payloadId` of calls that always kill their process. */
  readonly kills: ReadonlySet<string>;
}

/** What happens in the world of a seed, drawn before the world starts. */
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
  /** Probabilities that the operator retries or discards a dead letter at each poll. */
  readonly retry: number;
  readonly discard: number;
  /** How long faults are injected, and the mean time between faults that hit a process outside store calls. */
  readonly stormMs: number;
  readonly blowMs: number;
}

/** `deaths` and `joins` are separate random sources, so that their draws do not change the other draws of a seed. */
export async function graphPlanOf(random: Random, deaths: Random, joins: Random): Promise<GraphPlan> {
  const leaseMs = random.pick([100, 300, 1000]);
  const flow = await flowOf(random, joins, leaseMs);
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
      ignoresAbort: random.pick([0, 0.5, 1]),
      poison,
      kills: new Set(),
    },
    weather,
    retry: bad(1),
    discard: bad(0.3),
    stormMs: random.between(leaseMs * 3, leaseMs * 12),
    blowMs: random.pick([leaseMs, leaseMs * 4, leaseMs * 1000]),
  };
  if (plan.crashMax > 1 || !deaths.chance(0.3)) return plan;
  const kills = new Set([`${deaths.pick([...flow.nodes.keys()])}:i${deaths.between(1, ids)}`]);
  return { ...plan, bodies: { ...plan.bodies, kills } };
}

/**
 * A flow is archived only in worlds without late requests. Otherwise a trigger that was answered with FLOW_ARCHIVED could arrive late,
 * after the flow was resumed, and start an execution that its sender knows as rejected.
 */
function pauseOf(random: Random, leaseMs: number, slot: number, { late }: RunWeather): PausePlan {
  const to = random.chance(0.7) || late > 0 ? "paused" : "archived";
  return { to, slot, startMs: random.between(0, leaseMs * 4), forMs: random.between(0, leaseMs * 4) };
}
