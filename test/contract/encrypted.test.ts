import { randomBytes } from "node:crypto";
import { type ContractTarget, ledgerContract, memoryTarget, packetContract, runContract, sqliteTarget } from "onceflow/testing";
import { describe, test } from "vitest";

/** The contract also holds for a store that encrypts: no part of it may depend on what the database can read. */
const encryption = { keys: [{ id: "2026-11", key: randomBytes(32) }], required: true };

function encrypted(target: ContractTarget): ContractTarget {
  return {
    ...target,
    name: `${target.name}, encrypted`,
    async create() {
      const ledger = await target.create();
      return { ...ledger, open: (options) => ledger.open({ ...options, encryption }) };
    },
  };
}

const targets = { memory: memoryTarget({ time: "virtual" }), SQLite: sqliteTarget({ driver: "@photostructure/sqlite" }) };

for (const [title, plain] of Object.entries(targets)) {
  const target = encrypted(plain);
  for (const [of, contract] of Object.entries({ ledger: ledgerContract, runs: runContract, packets: packetContract })) {
    describe.concurrent(`${of}, ${title}, encrypted`, () => {
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
