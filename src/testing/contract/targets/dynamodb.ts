import { loadDriver } from "../../../stores/dynamodb/driver.js";
import { dynamoStore } from "../../../stores/dynamodb/index.js";
import type { DynamoClient } from "../../../stores/dynamodb/options.js";
import { parseDynamoUrl } from "../../../stores/dynamodb/url.js";
import { cuttingProxy } from "../../cutting-proxy.js";
import { openTarget } from "./open-target.js";
import type { ContractTarget } from "./target.js";

/** The DynamoDB store as a target of the contract. */
export interface DynamoTarget extends ContractTarget {
  /** Closes the target's own connections. */
  close(): Promise<void>;
}

/** Options of `dynamoTarget`. */
export interface DynamoTargetOptions {
  /** `dynamodb://region/any-table?endpoint=…`. Each ledger uses its own new table instead of the one named here. */
  readonly url: string;
  /**
   * How stores connect. `"url"` (default): each store with its own connections. `"proxy"`: the same, through a proxy that
   * can cut them; the endpoint must be plain HTTP. `"client"`: all stores share one client, as a user's own client would be.
   */
  readonly by?: "url" | "proxy" | "client";
}

let created = 0;

/**
 * Makes a contract target of the DynamoDB store. Each ledger has its own table, which is deleted afterwards.
 *
 * @throws When the driver is not installed or the URL is invalid.
 */
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
    // The emulator answers slowly when the machine is busy.
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
