import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { ask } from "../ledger/postgres-counters.js";

/** The place of a contender's data: empty when it is created, removed when it is released. */
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
    if (server === undefined) throw new Error("PostgreSQL is not available");
    this.#databases += 1;
    const name = `bench_${process.pid}_${this.#databases}`;
    await ask(server, `CREATE DATABASE ${name}`);
    // Data of earlier contenders is written to disk now, and not during the measurement.
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
