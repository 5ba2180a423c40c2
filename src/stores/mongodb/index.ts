import { InvalidInputError } from "../../core/errors/errors.js";
import { createStore } from "../../core/store/create-store.js";
import type { Store } from "../../core/store/store.js";
import type { StoreOptions } from "../../core/store/store-options.js";
import type { MongoOptions } from "./backend.js";

/** A `MongoClient` of the package mongodb. Named by what is asked of it, so that its types are not needed to read ours. */
export interface MongoClientLike {
  db(name?: string): object;
  startSession(): object;
}

export interface MongoStoreOptions extends StoreOptions {
  readonly client: MongoClientLike;
  /** Default: the one that the client was made with. */
  readonly database?: string;
  /** What the names of the store's collections begin with. Default `onceflow`. */
  readonly prefix?: string;
}

/**
 * A store on a MongoClient of your own, which stays yours: closing the store does not close it. Nobody renews leases
 * while the event loop is stuck, because a thread cannot share your client; open the store by its URL for that.
 *
 * @example
 * const store = await mongoStore({ client: new MongoClient("mongodb://localhost/shop"), database: "shop" });
 */
export async function mongoStore({ client, database, prefix, ...options }: MongoStoreOptions): Promise<Store> {
  if (typeof client !== "object" || client === null || typeof client.db !== "function" || typeof client.startSession !== "function")
    throw new InvalidInputError("client", "must be a MongoClient of the package mongodb");
  const { openMongo } = await import("./backend.js");
  const named = { ...(database === undefined ? {} : { database }), ...(prefix === undefined ? {} : { prefix }) };
  return createStore(await openMongo({ client: client as MongoOptions["client"], ...named }), options);
}
