import { ledgerContract, memoryTarget, packetContract, runContract } from "onceflow/testing";
import { describe, test } from "vitest";

for (const time of ["virtual", "real"] as const) {
  const target = memoryTarget({ time });
  for (const [of, contract] of Object.entries({ ledger: ledgerContract, runs: runContract, packets: packetContract })) {
    describe.concurrent(`${of}, ${target.name}`, () => {
      for (const { verb, cases } of contract) {
        describe(verb, () => {
          for (const one of cases) {
            const reason = one.skip(target);
            test(one.name, async ({ skip }) => (reason === undefined ? await one.run(target) : skip(reason)));
          }
        });
      }
    });
  }
}
