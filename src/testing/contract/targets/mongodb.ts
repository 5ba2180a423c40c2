import type { ClientSession, MongoClient } from "mongodb";
import { loadDriver } from "../../../stores/mongodb/driver.js";
import { mongoStore } from "../../../stores/mongodb/index.js";
import { clientOf } from "../../../stores/mongodb/transactions/transact.js";
import { type CuttingProxy, cuttingProxy } from "../../cutting-proxy.js";
import { openTarget } from "./open-target.js";
import type { BusinessRows, ContractTarget } from "./target.js";

export interface MongoTarget extends ContractTarget {
  /** Ends the connections that belong to nobody's store. */
  close(): Promise<void>;
}

export interface MongoTargetOptions {
  /** One host, and a database that is only for this. */
  readonly url: string;
  /** All stores on one client of the caller's own, instead of a client for each. */
  readonly shared?: boolean;
}

let created = 0;

/** The MongoDB store, each ledger under a prefix of its own in the one database of the URL. */
export async function mongoTarget({ url, shared = false }: MongoTargetOptions): Promise<MongoTarget> {
  const driver = await loadDriver();
  const client = await new driver.MongoClient(url).connect();
  const database = client.db();
  const { setName, msg } = await database.command({ hello: 1 });
  const replicated = setName !== undefined || msg === "isdbgrid";
  const { hostname, port } = new URL(url);
  return {
    name: `mongodb${replicated ? "" : ", standing alone"}${shared ? ", with a client of the user's own" : ""}`,
    capabilities: { transactions: replicated, sharedClock: true, durable: true, runs: replicated, packets: false },
    severs: !shared,
    async create() {
      created += 1;
      const prefix = `contract_${process.pid}_${created}`;
      let proxy: Promise<CuttingProxy> | undefined;
      return {
        async open(options) {
          if (shared) return await mongoStore({ ...options, client, prefix });
          // By a proxy of its own, so that one case can lose its connections without its neighbours.
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
          const ours = database.listCollections({ name: { $regex: `^${prefix}_` } }, { nameOnly: true });
          for (const { name } of await ours.toArray()) await database.collection(name).drop();
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
