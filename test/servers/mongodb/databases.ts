import { randomUUID } from "node:crypto";
import { MongoClient } from "mongodb";
import type { FreshDatabase } from "../postgres/databases.js";

/** A database of its own on a server that others use at the same time. MongoDB makes it when it is first written to. */
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
