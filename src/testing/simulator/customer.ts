import { NotKnownError, UnreachableError } from "../../core/errors/errors.js";
import type { Host, HostFleet } from "./host-fleet.js";
import type { World } from "./world.js";

export interface Customer {
  readonly wants: string;
  done: boolean;
}

interface Market<H extends Host> {
  readonly world: World;
  readonly plan: { readonly slots: readonly unknown[]; readonly leaseMs: number };
  readonly fleet: HostFleet<H>;
  readonly observer: { guard(check: () => void): void };
}

interface Wish<H extends Host> {
  readonly wants: string;
  /** The process that is asked first, and when. */
  readonly slot: number;
  readonly startMs: number;
  readonly act: (host: H) => Promise<void>;
  /** An answer after which one asks again; a lost message is one anyway. */
  readonly isPassing: (error: unknown) => boolean;
}

/** Does it on one process after the other until it is done. */
export function persist<H extends Host>({ world, fleet, plan, observer }: Market<H>, wish: Wish<H>): Customer {
  const { wants, slot, startMs, act, isPassing } = wish;
  const customer: Customer = { wants, done: false };
  const attempt = async (tries: number) => {
    const host = fleet.host((slot + tries) % plan.slots.length);
    try {
      const ended = await Promise.race([act(host).then(() => "done"), host.died]);
      if (ended === "died") return later(tries);
      customer.done = true;
    } catch (error) {
      if (error instanceof NotKnownError || error instanceof UnreachableError || isPassing(error)) return later(tries);
      customer.done = true;
      observer.guard(() => {
        throw error;
      });
    }
  };
  const later = (tries: number) => void world.after(world.random.between(1, plan.leaseMs * 2), () => void attempt(tries + 1));
  world.after(startMs, () => void attempt(0));
  return customer;
}
