import { ledgerContract, memoryTarget } from "onceflow/testing";
import { describe, test } from "vitest";

for (const time of ["virtual", "real"] as const) {
  const target = memoryTarget({ time });
  describe.concurrent(target.name, () => {
    for (const { verb, cases } of ledgerContract) {
      describe(verb, () => {
        for (const one of cases) {
          const reason = one.skip(target);
          test(one.name, async ({ skip }) => (reason === undefined ? await one.run(target) : skip(reason)));
        }
      });
    }
  });
}
