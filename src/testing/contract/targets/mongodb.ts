import type { ClientSession, MongoClient } from "mongodb";
import { loadDriver } from "../../../stores/mongodb/driver.js";
import { mongoStore } from "../../../stores/mongodb/index.js";
import { clientOf } from "../../../stores/mongodb/transactions/transact.js";
import { type CuttingProxy, cuttingProxy } from "../../cutting-proxy.js";
import { openTarget } from "./open-target.js";
import type { BusinessRows, ContractTarget } from "./target.js";

/** The MongoDB store as a target of the contract. */
export interface MongoTarget extends ContractTarget {
  /** Closes the target's own connections. */
  close(): Promise<void>;
}

/** Options of `mongoTarget`. */
export interface MongoTargetOptions {
  /** A URL with one host and a database that is only for these tests. */
  readonly url: string;
  /** True: all stores share one client, as a user's own client would be. Default: a client for each store. */
  readonly shared?: boolean;
}

let created = 0;

/**
 * Makes a contract target of the MongoDB store. Each ledger has its own prefix in the database of the URL, and its collections
 * are dropped afterwards. Without a replica set the target has neither transactions nor runs nor packets.
 *
 * @throws When the driver is not installed or the server cannot be reached.
 */
export async function mongoTarget({ url, shared = false }: MongoTargetOptions): Promise<MongoTarget> {
  const driver = await loadDriver();
  const client = await new driver.MongoClient(url).connect();
  const database = client.db();
  const { setName, msg } = await database.command({ hello: 1 });
  const replicated = setName !== undefined || msg === "isdbgrid";
  const { hostname, port } = new URL(url);
  return {
    name: `mongodb${replicated ? "" : ", standing alone"}${shared ? ", with a client of the user's own" : ""}`,
    capabilities: { transactions: replicated, sharedClock: true, durable: true, runs: replicated, packets: replicated },
    severs: !shared,
    async create() {
      created += 1;
      const prefix = `contract_${process.pid}_${created}`;
      let proxy: Promise<CuttingProxy> | undefined;
      return {
        async open(options) {
          if (shared) return await mongoStore({ ...options, client, prefix });
          // Each ledger has its own proxy, so that one case can cut its connections and no others.
          proxy ??= cuttingProxy({ host: hostname, port: Number(port) });
          const own = new URL(url);
          own.port = String((await proxy).port);
          own.searchParams.set("directConnection", "true");
          own.searchParams.set("prefix", prefix);
          return await openTarget(own.href, options);
        },
        business: businessRows(client, prefix),
        sever: async () => (await proxy)?.cutAll(),
        async remove() {
          await (await proxy)?.close();
          const ours = database.listCollections({ name: { $regex: `^${prefix}[._]` } }, { nameOnly: true });
          for (const { name } of await ours.toArray()) await database.collection(name).drop();
          await database.collection("onceflow_key_collections").deleteMany({ prefix });
        },
      };
    },
    close: () => client.close(),
  };
}

function businessRows(client: MongoClient, ledger: string): BusinessRows {
  const rowsOf = (one: MongoClient) => one.db(client.db().databaseName).collection<{ _id: string; row: string }>(`${ledger}_business`);
  let added = 0;
  return {
    async add(tx, row) {
      const session = tx as ClientSession;
      added += 1;
      await rowsOf(clientOf(session)).insertOne({ _id: String(added).padStart(6, "0"), row }, { session });
    },
    async rows() {
      return (await rowsOf(client).find().sort({ _id: 1 }).toArray()).map(({ row }) => row);
    },
    async runner(work) {
      const session = client.startSession();
      try {
        session.startTransaction({ writeConcern: { w: "majority" } });
        const result = await work(session);
        await session.commitTransaction();
        return result;
      } catch (error) {
        if (session.inTransaction()) await session.abortTransaction();
        throw error;
      } finally {
        await session.endSession();
      }
    },
  };
}
