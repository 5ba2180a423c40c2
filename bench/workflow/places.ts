import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { ask } from "../ledger/postgres-counters.js";

/** Where a contender keeps its data: empty when it is taken, gone when it is released. */
export interface Place {
  readonly url?: string;
  readonly folder: string;
  release(): Promise<void>;
}

export class Places {
  readonly #folder: string;
  readonly #server: string | undefined;
  #databases = 0;

  constructor(folder: string, server: string | undefined) {
    this.#folder = folder;
    this.#server = server;
  }

  async inFolder(): Promise<Place> {
    const folder = await mkdtemp(join(this.#folder, "place-"));
    return { folder, release: () => rm(folder, { recursive: true, force: true, maxRetries: 5 }) };
  }

  async inDatabase(): Promise<Place & { readonly url: string }> {
    const server = this.#server;
    if (server === undefined) throw new Error("there is no PostgreSQL");
    this.#databases += 1;
    const name = `bench_${process.pid}_${this.#databases}`;
    await ask(server, `CREATE DATABASE ${name}`);
    // What others left to be written to disk is not written while this one is measured.
    await ask(server, "CHECKPOINT");
    const url = new URL(server);
    url.pathname = `/${name}`;
    const { folder, release } = await this.inFolder();
    return {
      url: url.href,
      folder,
      async release() {
        await ask(server, `DROP DATABASE ${name} WITH (FORCE)`);
        await release();
      },
    };
  }
}
