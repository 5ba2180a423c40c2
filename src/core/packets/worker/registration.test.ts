import { expect, test } from "vitest";
import type { Store } from "../../store/store.js";
import { WorkerRegistration } from "./registration.js";

/** A store that counts in whole milliseconds, as all stores do, and a process with a finer clock. */
function between() {
  const at = { now: 1000.7 };
  const lease = { until: 0 };
  const grant = (leaseMs: number) => {
    lease.until = Math.floor(at.now) + leaseMs;
  };
  const packets = {
    join: async ({ leaseMs }: { readonly leaseMs: number }) => {
      grant(leaseMs);
      return 1;
    },
    renew: async (_: number, leaseMs: number) => {
      grant(leaseMs);
      return true;
    },
  };
  const registration = new WorkerRegistration({ clock: { now: () => at.now }, packets } as unknown as Store, 100);
  return { at, lease, registration };
}

test("a worker that is sure of its lease still has it in the store, to the last fraction of a millisecond", async () => {
  const { at, lease, registration } = between();
  for (const ask of [() => registration.join(), () => registration.renew()]) {
    await ask();
    expect(registration.isSure(at.now)).toBe(true);
    const { until } = lease;
    for (at.now = until - 2; at.now < until + 2; at.now += 0.1) if (registration.isSure(at.now)) expect(at.now).toBeLessThan(until);
    expect(registration.isSure(at.now)).toBe(false);
    at.now = Math.floor(at.now) + 0.7;
  }
});
