import { ledgerContract, type MongoTarget, mongoTarget, runContract } from "onceflow/testing";
import { afterAll, beforeAll, describe, inject, test } from "vitest";

const server = inject("mongodb");
let target: MongoTarget | undefined;

beforeAll(async () => {
  if (server.ok) target = await mongoTarget({ url: server.url });
});

afterAll(async () => {
  await target?.close();
});

for (const [of, contract] of Object.entries({ ledger: ledgerContract, runs: runContract })) {
  describe.concurrent(`${of}, mongodb (an emulator, unless ONCEFLOW_TEST_MONGODB_URL names a real one)`, () => {
    for (const { verb, cases } of contract) {
      describe(verb, () => {
        for (const one of cases) {
          test(one.name, async ({ skip }) => {
            if (target === undefined) return skip(server.ok ? "no target" : server.reason);
            const reason = one.skip(target);
            return reason === undefined ? await one.run(target) : skip(reason);
          });
        }
      });
    }
  });
}
