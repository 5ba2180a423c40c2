import type { ClientSession, MongoClient } from "mongodb";
import { ConfigurationError } from "../../core/errors/errors.js";

export type MongoModule = typeof import("mongodb");
export type { MongoClient };

/** Set if a command belongs to an open transaction. */
export interface SessionOption {
  readonly session?: ClientSession;
}

export async function loadDriver(): Promise<MongoModule> {
  try {
    return await import("mongodb");
  } catch (error) {
    throw new ConfigurationError('[onceflow] [mongodb] the package "mongodb" is not installed: npm install mongodb', {
      code: "MISSING_DRIVER",
      cause: error,
    });
  }
}
