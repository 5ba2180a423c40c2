import {
  type ContractCase,
  type ContractTarget,
  type DynamoTarget,
  type DynamoTargetOptions,
  dynamoTarget,
  ledgerContract,
} from "onceflow/testing";
import { afterAll, beforeAll, describe, inject, test } from "vitest";

const server = inject("dynamodb");

function contract(by: NonNullable<DynamoTargetOptions["by"]>, wanted: (one: ContractCase, verb: string) => boolean): void {
  let target: DynamoTarget | undefined;
  beforeAll(async () => {
    if (server.ok) target = await dynamoTarget({ url: server.url, by });
  });
  afterAll(async () => {
    await target?.close();
  });
  for (const { verb, cases } of ledgerContract) {
    const own = cases.filter((one) => wanted(one, verb));
    if (own.length === 0) continue;
    describe(verb, () => {
      for (const one of own) {
        test(one.name, async ({ skip }) => {
          if (target === undefined) return skip(server.ok ? "no server" : server.reason);
          const reason = one.skip(target);
          return reason === undefined ? await one.run(target) : skip(reason);
        });
      }
    });
  }
}

describe.concurrent("ledger, DynamoDB", () => contract("url", () => true));

describe.concurrent("ledger, DynamoDB with the application's client", () =>
  contract("client", (_, verb) => ["open", "begin", "resend"].includes(verb)));

const unsevered = { name: "", severs: false } as ContractTarget;
describe.concurrent("ledger, DynamoDB behind connections that break", () =>
  contract(
    "proxy",
    (one) =>
      one.skip({ ...unsevered, capabilities: { transactions: true, sharedClock: true, durable: true, runs: true, packets: false } }) !==
      undefined,
  ));
