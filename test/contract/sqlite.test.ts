import { ledgerContract, packetContract, runContract, sqliteTarget } from "onceflow/testing";
import { describe, test } from "vitest";

/** @photostructure/sqlite, which Node 20 needs and later versions may use; node:sqlite is in node24.test.ts. */
const driver = "@photostructure/sqlite";
const target = sqliteTarget({ driver });

for (const [of, contract] of Object.entries({ ledger: ledgerContract, runs: runContract, packets: packetContract })) {
  describe.concurrent(`${of}, SQLite with ${driver}`, () => {
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
