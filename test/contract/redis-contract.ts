import { ledgerContract, type RedisTarget } from "onceflow/testing";
import { describe, inject, test } from "vitest";

/** Drivers differ in how they send scripts and read replies: these verbs send every script. */
export const scriptVerbs = ["begin", "attempt", "purge"];

const server = inject("redis");

/** With the application's client no thread renews leases while the event loop is stuck, which happens with many cases on a busy machine. */
export const allButRenew = ledgerContract.map(({ verb }) => verb).filter((verb) => verb !== "renew");

/** Registers the contract, or some of its verbs, for a target that is made before the tests run. */
export function describeContract(name: string, target: () => RedisTarget | undefined, verbs?: readonly string[]): void {
  describe.concurrent(name, () => {
    for (const { verb, cases } of ledgerContract.filter((group) => verbs === undefined || verbs.includes(group.verb))) {
      describe(verb, () => {
        for (const one of cases) {
          test(one.name, async ({ skip }) => {
            const at = target();
            if (at === undefined) return skip(server.ok ? "no server" : server.reason);
            const reason = one.skip(at);
            return reason === undefined ? await one.run(at) : skip(reason);
          });
        }
      });
    }
  });
}
