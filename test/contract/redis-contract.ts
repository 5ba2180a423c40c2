import { ledgerContract, type RedisTarget } from "onceflow/testing";
import { describe, inject, test } from "vitest";

/** What differs between drivers is how scripts are sent and answered: these verbs send every one of them. */
export const scriptVerbs = ["begin", "attempt", "purge"];

const server = inject("redis");

/** A client of the user's own has nobody to renew for a stuck event loop, which on a busy machine many cases at once can be. */
export const allButRenew = ledgerContract.map(({ verb }) => verb).filter((verb) => verb !== "renew");

/** Registers the contract, or some verbs of it, for a target that is made before the tests run. */
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
