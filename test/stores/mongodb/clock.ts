import { MongoClient } from "mongodb";
import type { Backend } from "../../../src/core/store/store.js";
import { mongoBackend } from "../../../src/stores/mongodb/backend.js";

/** The time of a database of the emulator, given by the test. A real server has no such command. */
export class MongoClock {
  readonly #client: MongoClient;
  #now = 0;

  private constructor(client: MongoClient) {
    this.#client = client;
  }

  /** A store on such a clock. Undefined: the server is not the emulator. */
  static async open(url: string): Promise<{ readonly backend: Backend; readonly clock: MongoClock } | undefined> {
    const client = await new MongoClient(url).connect();
    const clock = new MongoClock(client);
    try {
      await clock.set(1);
    } catch {
      await client.close();
      return undefined;
    }
    return { backend: await mongoBackend({ client }), clock };
  }

  now(): number {
    return this.#now;
  }

  async set(at: number): Promise<void> {
    this.#now = at;
    await this.#client.db().command({ setEmulatedTime: at });
  }

  async pass(ms: number): Promise<void> {
    await this.set(this.#now + ms);
  }

  /** Removes all documents but the version of the schema and the names of collections. */
  async clear(): Promise<void> {
    const names = (await this.#client.db().listCollections().toArray()).map(({ name }) => name);
    for (const name of names) {
      if (name === "onceflow_key_collections") continue;
      await this.#client
        .db()
        .collection(name)
        .deleteMany(name === "onceflow_meta" ? { _id: { $ne: "schema" as never } } : {});
    }
  }

  async close(): Promise<void> {
    await this.#client.close();
  }
}
