import { MongoClient } from "mongodb";
import { type ServerProgram, startProgram } from "../process/program-server.js";
import type { Server } from "../provider.js";

/** A program that speaks MongoDB's protocol on a loopback port. */
export type MongoProgram = Pick<ServerProgram, "title" | "from" | "command" | "args">;

export async function startMongo(program: MongoProgram): Promise<Server> {
  return await startProgram({ ...program, url: (port) => `mongodb://127.0.0.1:${port}/onceflow`, answers });
}

export async function answers(url: string): Promise<boolean> {
  const client = new MongoClient(url, { serverSelectionTimeoutMS: 500 });
  try {
    await client.db("admin").command({ ping: 1 });
    return true;
  } catch {
    return false;
  } finally {
    await client.close();
  }
}
