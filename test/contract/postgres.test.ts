import { ledgerContract, type PostgresTarget, packetContract, postgresTarget, runContract } from "onceflow/testing";
import { afterAll, beforeAll, describe, inject, test } from "vitest";
import { type FreshDatabase, freshDatabase } from "../servers/postgres/databases.js";

const server = inject("postgres");
let database: FreshDatabase | undefined;
let target: PostgresTarget | undefined;

beforeAll(async () => {
  if (!server.ok) return;
  database = await freshDatabase(server.url);
  target = await postgresTarget({ url: database.url });
});

afterAll(async () => {
  await target?.close();
  await database?.drop();
});

for (const [of, contract] of Object.entries({ ledger: ledgerContract, runs: runContract, packets: packetContract })) {
  describe.concurrent(`${of}, PostgreSQL`, () => {
    for (const { verb, cases } of contract) {
      describe(verb, () => {
        for (const one of cases) {
          test(one.name, async ({ skip }) => {
            if (target === undefined) return skip(server.ok ? "no database" : server.reason);
            const reason = one.skip(target);
            return reason === undefined ? await one.run(target) : skip(reason);
          });
        }
      });
    }
  });
}
