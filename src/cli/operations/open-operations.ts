import { type Command, Option } from "commander";
import { InvalidInputError } from "../../exports/index.js";
import { apiClient } from "../api-client.js";
import { storeOption, withStore } from "../open-store.js";
import { tokenOf } from "../token.js";
import { localOperations } from "./local.js";
import type { Operations } from "./operations.js";
import { remoteOperations } from "./remote.js";

/** Where a command acts. */
export interface TargetOptions {
  readonly store?: string;
  readonly url?: string;
  readonly tokenFile?: string;
  readonly json?: boolean;
}

/** Adds the options that say where the command acts. */
export function addTargetOptions(command: Command): Command {
  return command
    .addOption(storeOption())
    .addOption(new Option("--url <server>", "act through the HTTP API of this server instead of a store"))
    .option("--token-file <file>", "file with the server's token (or set ONCEFLOW_TOKEN)")
    .option("--json", "print JSON");
}

/** Runs `work` with the operations on a store, or by a server's API, and closes what was opened. */
export async function withOperations<T>(
  { store: storeUrl, url, tokenFile }: TargetOptions,
  work: (operations: Operations) => Promise<T>,
): Promise<T> {
  if (url !== undefined) {
    if (storeUrl !== undefined) throw new InvalidInputError("url", "--url and --store exclude each other: the server has its own store");
    return await work(remoteOperations(apiClient(url, await tokenOf(tokenFile))));
  }
  if (tokenFile !== undefined) throw new InvalidInputError("token-file", "needs --url, the server that the token is for");
  return await withStore(storeUrl, { create: false }, async (store) => {
    const { operations, close } = localOperations(store);
    try {
      return await work(operations);
    } finally {
      await close();
    }
  });
}
