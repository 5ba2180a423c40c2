import { randomUUID } from "node:crypto";
import { DeleteTableCommand, DynamoDBClient, ListTablesCommand } from "@aws-sdk/client-dynamodb";

export interface FreshTable {
  readonly url: string;
  drop(): Promise<void>;
}

/** The URL of a table that does not exist yet, on a server that other tests use at the same time. */
export function freshTable(serverUrl: string): FreshTable {
  const name = `onceflow_test_${randomUUID().replaceAll("-", "")}`;
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  url.searchParams.set("create", "true");
  return {
    url: url.href,
    async drop() {
      const { client, close } = clientOf(serverUrl);
      await client.send(new DeleteTableCommand({ TableName: name })).catch(() => undefined);
      close();
    },
  };
}

/** A bare client of the AWS SDK for the server of this URL. */
export function clientOf(serverUrl: string) {
  const { hostname, username, password, searchParams } = new URL(serverUrl);
  const endpoint = searchParams.get("endpoint");
  const client = new DynamoDBClient({
    region: hostname,
    ...(endpoint === null ? {} : { endpoint }),
    ...(username === "" ? {} : { credentials: { accessKeyId: username, secretAccessKey: password } }),
    maxAttempts: 1,
  });
  return {
    client,
    /** True if the server answers, otherwise undefined. */
    answers: () =>
      client.send(new ListTablesCommand({ Limit: 1 })).then(
        () => true,
        () => undefined,
      ),
    close: () => client.destroy(),
  };
}
