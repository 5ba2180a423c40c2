import { ledgerContract, type MongoTarget, mongoTarget, packetContract, runContract } from "onceflow/testing";
import { afterAll, beforeAll, describe, inject, test } from "vitest";
import { sample } from "../kit/effort.js";

const server = inject("mongodb");
let byUrl: MongoTarget | undefined;
let byClient: MongoTarget | undefined;
let severed: MongoTarget | undefined;

beforeAll(async () => {
  if (!server.ok) return;
  byUrl = await mongoTarget({ url: server.url });
  byClient = await mongoTarget({ url: server.url, shared: true });
  // The driver (7.8) waits without end if it writes to a connection that was closed while idle: so idle connections are not kept here.
  severed = await mongoTarget({ url: `${server.url}${server.url.includes("?") ? "&" : "?"}maxIdleTimeMS=5` });
});

afterAll(async () => {
  await byUrl?.close();
  await byClient?.close();
  await severed?.close();
});

for (const [of, contract] of Object.entries({ ledger: ledgerContract, runs: runContract, packets: packetContract })) {
  describe.concurrent(`${of}, MongoDB (an emulator, unless ONCEFLOW_TEST_MONGODB_URL names a real one)`, () => {
    for (const { verb, cases } of contract) {
      describe(verb, () => {
        for (const one of sample(cases, 3)) {
          test(one.name, async ({ skip }) => {
            if (byUrl === undefined || byClient === undefined || severed === undefined)
              return skip(server.ok ? "no target" : server.reason);
            // The ledger is opened by its URL, runs on the application's client: this tests both ways without taking twice the time.
            const usual = of === "ledger" ? byUrl : byClient;
            const target = one.skip(byClient) !== undefined && one.skip(severed) === undefined ? severed : usual;
            const reason = one.skip(target);
            return reason === undefined ? await one.run(target) : skip(reason);
          });
        }
      });
    }
  });
}
