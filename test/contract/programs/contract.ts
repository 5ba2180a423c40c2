import { createRequire } from "node:module";
import { after, describe, test } from "node:test";
import { ledgerContract, packetContract, runContract, sqliteTarget } from "onceflow/testing";

/** The SQLite contracts in Node's own test runner: no other one is installed where this runs. */
const target = sqliteTarget();

describe(target.name, { concurrency: 5, timeout: 120_000 }, () => {
  for (const [of, contract] of Object.entries({ ledger: ledgerContract, runs: runContract, packets: packetContract })) {
    for (const { verb, cases } of contract) {
      for (const one of cases) {
        const reason = one.skip(target);
        test(`${of}, ${verb}: ${one.name}`, reason === undefined ? {} : { skip: reason }, () => one.run(target));
      }
    }
  }
});

after(() => {
  const { cache } = createRequire(import.meta.url);
  const other = Object.keys(cache).some((file) => file.includes("node_modules/@photostructure/sqlite/"));
  process.stdout.write(`${JSON.stringify({ node: process.version, target: target.name, otherWasLoaded: other })}\n`);
});
