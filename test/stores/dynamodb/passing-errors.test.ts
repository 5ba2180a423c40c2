import {
  type DynamoDBClient,
  InternalServerError,
  ProvisionedThroughputExceededException,
  RequestLimitExceeded,
} from "@aws-sdk/client-dynamodb";
import { key as keyOf, once, type Store } from "onceflow";
import { dynamoStore } from "onceflow/store";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { clientOf, type FreshTable, freshTable } from "../../servers/dynamodb/tables.js";
import { effect, effects, expectDoneOnce } from "../counted-effects.js";

const server = inject("dynamodb");

interface Fault {
  readonly error: Error;
  /** Whether the server has executed the request before it answers with the error. */
  readonly done: boolean;
}

const fieldsOf = (httpStatusCode: number) => ({ message: "injected failure", $metadata: { httpStatusCode, attempts: 1 } });
const faults: Readonly<Record<string, Fault>> = {
  ProvisionedThroughputExceededException: { error: new ProvisionedThroughputExceededException(fieldsOf(400)), done: false },
  RequestLimitExceeded: { error: new RequestLimitExceeded(fieldsOf(400)), done: false },
  "InternalServerError, not done": { error: new InternalServerError(fieldsOf(500)), done: false },
  "InternalServerError, done": { error: new InternalServerError(fieldsOf(500)), done: true },
};
const isWrite = (command: object) => /^(Put|Update|Delete|TransactWrite|BatchWrite)/.test(command.constructor.name);

describe.skipIf(!server.ok)("transient errors of DynamoDB", () => {
  let table: FreshTable;
  let close: () => void;
  let store: Store;
  let failing: { readonly fault: Fault; times: number } | undefined;

  beforeAll(async () => {
    table = freshTable(server.ok ? server.url : "");
    const real = clientOf(table.url);
    close = real.close;
    const send = async (...args: Parameters<DynamoDBClient["send"]>) => {
      if (!isWrite(args[0]) || failing === undefined || failing.times === 0) return await real.client.send(...args);
      failing.times -= 1;
      const { error, done } = failing.fault;
      if (done) await real.client.send(...args);
      throw error;
    };
    const client = Object.assign(Object.create(real.client) as DynamoDBClient, { send });
    store = await dynamoStore({ client, table: new URL(table.url).pathname.slice(1), create: true });
  });
  afterAll(async () => {
    await store?.close();
    await table?.drop();
    close?.();
  });

  test.for(Object.entries(faults))("%s at a begin and at a settle: the effect runs once, and its result is kept", async ([name, fault]) => {
    // A request that was executed is recognised as done when it is sent again, so the fault is met once only.
    const times = fault.done ? 1 : 3;
    const [atBegin, atSettle] = [
      { fault, times },
      { fault, times },
    ];
    failing = atBegin;
    const executed = await once(store, { key: keyOf.of(name), leaseMs: 60_000 }, () => {
      expect([atBegin.times, effects.get(name)]).toEqual([0, undefined]);
      failing = atSettle;
      return effect(name);
    });
    expect(executed).toMatchObject({ status: "executed", value: `done ${name}` });
    expect(atSettle.times).toBe(0);
    await expectDoneOnce(store, name);
  });
});
