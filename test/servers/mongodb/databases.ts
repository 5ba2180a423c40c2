import { randomUUID } from "node:crypto";
import { MongoClient } from "mongodb";
import type { FreshDatabase } from "../postgres/databases.js";

/** The URL of a new database on a server that other tests use at the same time. MongoDB creates it at the first write. */
export async function freshMongoDatabase(serverUrl: string): Promise<FreshDatabase> {
  const url = new URL(serverUrl);
  url.pathname = `/onceflow_test_${randomUUID().replaceAll("-", "")}`;
  return {
    url: url.href,
    async drop() {
      const client = new MongoClient(url.href);
      await client.db().dropDatabase();
      await client.close();
    },
  };
}
