import { ledgerContract, type PostgresTarget, packetContract, postgresTarget, runContract } from "onceflow/testing";
import { afterAll, beforeAll, describe, inject, test } from "vitest";
import { acquire } from "../servers/acquire.js";
import { type FreshDatabase, freshDatabase } from "../servers/postgres/databases.js";
import { startPgBouncer } from "../servers/postgres/pgbouncer.js";
import type { Server } from "../servers/provider.js";

const server = inject("postgres");

/**
 * In transaction mode there are fewer server sessions than connections, and each transaction may use another session. Session
 * mode has fewer risks, so the ledger contract is enough.
 */
const modes = [
  { mode: "transaction", size: 12, contracts: { ledger: ledgerContract, runs: runContract, packets: packetContract } },
  { mode: "session", size: 60, contracts: { ledger: ledgerContract } },
] as const;

for (const { mode, size, contracts } of modes) {
  describe(`PgBouncer in ${mode} mode`, () => {
    let database: FreshDatabase | undefined;
    let pooler: Server | undefined;
    let target: PostgresTarget | undefined;
    let missing = "no database";

    beforeAll(async () => {
      const program = await acquire("pgbouncer");
      if (!server.ok || !program.ok) {
        missing = server.ok ? (program as { reason: string }).reason : server.reason;
        return;
      }
      database = await freshDatabase(server.url);
      pooler = await startPgBouncer(program.running, { target: database.url, pool_mode: mode, default_pool_size: size });
      // The pooler's connections to the server are shared: closing those of one ledger would close those of the others.
      target = { ...(await postgresTarget({ url: pooler.url })), severs: false };
    }, 700_000);

    afterAll(async () => {
      await target?.close();
      await pooler?.stop();
      await database?.drop();
    });

    for (const [of, contract] of Object.entries(contracts)) {
      describe.concurrent(of, () => {
        for (const { verb, cases } of contract) {
          describe(verb, () => {
            for (const one of cases) {
              test(one.name, async ({ skip }) => {
                if (target === undefined) return skip(missing);
                const reason = one.skip(target);
                return reason === undefined ? await one.run(target) : skip(reason);
              });
            }
          });
        }
      });
    }
  });
}
