import { NotKnownError, UnreachableError } from "../../core/errors/errors.js";
import type { Host, HostFleet } from "./host-fleet.js";
import type { World } from "./world.js";

/** A client that retries one action on the fleet until it succeeds. */
export interface Customer {
  /** What the client is trying to do, for error messages. */
  readonly wants: string;
  done: boolean;
}

interface CustomerWorld<H extends Host> {
  readonly world: World;
  readonly plan: { readonly slots: readonly unknown[]; readonly leaseMs: number };
  readonly fleet: HostFleet<H>;
  readonly observer: { guard(check: () => void): void };
}

interface Request<H extends Host> {
  readonly wants: string;
  /** The slot of the first try; each retry uses the next slot. */
  readonly slot: number;
  readonly startMs: number;
  readonly act: (host: H) => Promise<void>;
  /** Whether to retry after this error. Lost messages and an unreachable store are always retried. */
  readonly isTransient: (error: unknown) => boolean;
}

/** Tries the request on one process after the other until it succeeds or fails with an error that is not transient. */
export function persist<H extends Host>({ world, fleet, plan, observer }: CustomerWorld<H>, request: Request<H>): Customer {
  const { wants, slot, startMs, act, isTransient } = request;
  const customer: Customer = { wants, done: false };
  const attempt = async (tries: number) => {
    const host = fleet.host((slot + tries) % plan.slots.length);
    try {
      const ended = await Promise.race([act(host).then(() => "done"), host.died]);
      if (ended === "died") return retryLater(tries);
      customer.done = true;
    } catch (error) {
      if (error instanceof NotKnownError || error instanceof UnreachableError || isTransient(error)) return retryLater(tries);
      customer.done = true;
      observer.guard(() => {
        throw error;
      });
    }
  };
  const retryLater = (tries: number) => void world.after(world.random.between(1, plan.leaseMs * 2), () => void attempt(tries + 1));
  world.after(startMs, () => void attempt(0));
  return customer;
}
