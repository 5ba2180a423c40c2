import { MongoClient } from "mongodb";
import { open } from "onceflow";
import { acquire } from "../../test/servers/acquire.js";
import { versionOf } from "../conditions.js";
import { MongoFloor } from "./mongodb-floor.js";
import { ours } from "./ours.js";
import type { Subject } from "./subject.js";

/** The emulator keeps everything in memory and evaluates pipelines in JavaScript: with more keys it would take an hour. */
const keysMax = 20_000;

/** The emulator of the tests, or a given real server. Both show what the store adds to driver and server. */
export async function mongoSubject(): Promise<Subject> {
  const acquired = await acquire("mongodb");
  if (!acquired.ok) throw new Error(`MongoDB is not available: ${acquired.reason}`);
  const { url, from, stop } = acquired.running;
  let prefixes = 0;
  const emptyUrl = async () => {
    prefixes += 1;
    return `${url}${url.includes("?") ? "&" : "?"}prefix=bench_${process.pid}_${prefixes}`;
  };
  return {
    name: "mongodb",
    keysMax,
    conditions: { mongodb: from, "mongodb driver": `mongodb ${versionOf("mongodb")}` },
    emptyUrl,
    async prepare({ kind }) {
      const store = await open(await emptyUrl());
      const client = new MongoClient(url);
      const settings = { writeConcern: { w: "majority", journal: true }, readConcern: { level: "majority" } } as const;
      const floor = new MongoFloor(client.db().collection(`bench_${process.pid}_${prefixes}_floor`, settings));
      return {
        contenders: [await ours(store, kind), kind === "executed" ? floor.bare() : await floor.read()],
        async close() {
          await client.close();
          await store.close();
        },
      };
    },
    close: stop,
  };
}
