import type pg from "pg";
import type { RunChange, WhatChanged } from "../../../core/runs/operation.js";
import { type Backoff, backoffMs } from "../../../core/work/backoff.js";
import { type ConnectionConfig, startUp } from "../connection/session.js";
import type { PgModule } from "../driver.js";
import { PollingWatch } from "./polling-watch.js";
import { chunksMark } from "./tell.js";

const listenBackoff: Backoff = { minMs: 100, maxMs: 5000 };

/** By LISTEN; by polling where a pooler stands in between, because there no session is ours to listen with. */
export function openWatch(pg: PgModule, config: ConnectionConfig, channel: string): RunWatch | PollingWatch {
  return config.pooled ? new PollingWatch() : new RunWatch(() => new pg.Client(startUp(config)), channel);
}

/**
 * Hears what others tell (tell.ts), on a connection of its own while anybody watches.
 *
 *   idle        nobody watches: no connection, no timer
 *   connecting  the connection is being made
 *   listening   on the channel
 *   waiting     it broke, or could not be made: once more after a while, longer every time
 *
 * Whatever was told before it listened was missed: so whenever it begins to listen, it says that something may have
 * changed.
 */
class RunWatch {
  readonly #connect: () => pg.Client;
  readonly #channel: string;
  readonly #watchers = new Set<{ readonly changed: (run: RunChange, what?: WhatChanged) => void }>();
  #client: pg.Client | undefined;
  #retry: NodeJS.Timeout | undefined;
  /** Since it last listened. */
  #failures = 0;

  constructor(connect: () => pg.Client, channel: string) {
    this.#connect = connect;
    this.#channel = channel;
  }

  watch(changed: (run: RunChange, what?: WhatChanged) => void): () => void {
    // An object for each call: the same function may watch twice, and stop once.
    const watcher = { changed };
    this.#watchers.add(watcher);
    if (this.#watchers.size === 1) void this.#listen();
    return () => {
      if (this.#watchers.delete(watcher) && this.#watchers.size === 0) void this.#rest();
    };
  }

  async close(): Promise<void> {
    this.#watchers.clear();
    await this.#rest();
  }

  async #listen(): Promise<void> {
    this.#retry = undefined;
    const client = this.#connect();
    this.#client = client;
    client.on("notification", ({ payload = "" }) => {
      if (this.#client !== client) return;
      const grown = payload.startsWith(chunksMark);
      const id = grown ? payload.slice(1) : payload;
      this.#tell(id === "" ? null : id, grown ? "chunks" : "run");
    });
    client.on("error", () => this.#broken(client));
    client.on("end", () => this.#broken(client));
    try {
      await client.connect();
      await client.query(`LISTEN "${this.#channel}"`);
    } catch {
      return this.#broken(client);
    }
    if (this.#client !== client) return;
    this.#failures = 0;
    this.#tell(null);
  }

  #tell(run: RunChange, what: WhatChanged = "run"): void {
    for (const { changed } of this.#watchers) changed(run, what);
  }

  #broken(client: pg.Client): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    void client.end().catch(() => {});
    this.#failures += 1;
    this.#retry = setTimeout(() => void this.#listen(), backoffMs(listenBackoff, this.#failures));
    this.#retry.unref();
  }

  async #rest(): Promise<void> {
    clearTimeout(this.#retry);
    this.#retry = undefined;
    this.#failures = 0;
    const client = this.#client;
    this.#client = undefined;
    await client?.end().catch(() => {});
  }
}
