import { loadDriver } from "../../../stores/dynamodb/driver.js";
import { dynamoStore } from "../../../stores/dynamodb/index.js";
import type { DynamoClient } from "../../../stores/dynamodb/options.js";
import { parseDynamoUrl } from "../../../stores/dynamodb/url.js";
import { cuttingProxy } from "../../cutting-proxy.js";
import { openTarget } from "./open-target.js";
import type { ContractTarget } from "./target.js";

export interface DynamoTarget extends ContractTarget {
  /** Ends the connections that belong to nobody's store. */
  close(): Promise<void>;
}

export interface DynamoTargetOptions {
  /** `dynamodb://region/any-table?endpoint=…`: each ledger takes a table of its own in its place. */
  readonly url: string;
  /**
   * How stores get there. "url": each by its own connections. "proxy": the same, and they can be cut; the endpoint has to
   * be plain HTTP. "client": all through one client of the user's own.
   */
  readonly by?: "url" | "proxy" | "client";
}

let created = 0;

/** The DynamoDB store, each ledger in a table of its own. */
export async function dynamoTarget({ url, by = "url" }: DynamoTargetOptions): Promise<DynamoTarget> {
  const { DynamoDBClient, DeleteTableCommand } = await loadDriver();
  const { region, endpoint, credentials } = parseDynamoUrl(tableUrl(url, "contract"));
  const client = new DynamoDBClient({
    region,
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(credentials === undefined ? {} : { credentials }),
  });
  return {
    name: `dynamodb by ${by}`,
    capabilities: { transactions: false, sharedClock: false, durable: true, runs: false, packets: false },
    severs: by === "proxy",
    // The emulator takes long for an answer when the machine is busy.
    leaseMs: 1500,
    async create() {
      created += 1;
      const table = `contract_${process.pid}_${created}`;
      const { hostname, port } = new URL(endpoint ?? "http://127.0.0.1");
      const proxy = by === "proxy" ? await cuttingProxy({ host: hostname, port: Number(port) }) : undefined;
      const own = tableUrl(url, table, proxy && `http://127.0.0.1:${proxy.port}`);
      return {
        open: (options) =>
          by === "client" ? dynamoStore({ ...options, client: client as DynamoClient, table, create: true }) : openTarget(own, options),
        sever: async () => proxy?.cutAll(),
        async remove() {
          await client.send(new DeleteTableCommand({ TableName: table })).catch(() => undefined);
          await proxy?.close();
        },
      };
    },
    close: async () => client.destroy(),
  };
}

function tableUrl(server: string, table: string, endpoint?: string): string {
  const url = new URL(server);
  url.pathname = `/${table}`;
  url.searchParams.set("create", "true");
  if (endpoint !== undefined) url.searchParams.set("endpoint", endpoint);
  return url.href;
}
