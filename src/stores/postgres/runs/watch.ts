import type pg from "pg";
import type { RunChange, WhatChanged } from "../../../core/runs/operation.js";
import { type Backoff, backoffMs } from "../../../core/work/backoff.js";
import { type ConnectionConfig, startUp } from "../connection/session.js";
import type { PgModule } from "../driver.js";
import { chunksMark } from "./notify.js";
import { PollingWatch } from "./polling-watch.js";

const listenBackoff: Backoff = { minMs: 100, maxMs: 5000 };

/** Watches by LISTEN; through a pooler, which does not keep a session, by polling. */
export function openWatch(pg: PgModule, config: ConnectionConfig, channel: string): RunWatch | PollingWatch {
  return config.pooled ? new PollingWatch() : new RunWatch(() => new pg.Client(startUp(config)), channel);
}

/**
 * Receives notifications of other processes (notify.ts) on its own connection, while there is a watcher.
 *
 *   idle        no watcher: no connection, no timer
 *   connecting  the connection is being opened
 *   listening   on the channel
 *   waiting     the connection broke or could not be opened: it is opened again after a backoff
 *
 * Notifications before it listens are missed. So whenever it begins to listen, it reports that something may have
 * changed.
 */
class RunWatch {
  readonly #connect: () => pg.Client;
  readonly #channel: string;
  readonly #watchers = new Set<{ readonly changed: (run: RunChange, what?: WhatChanged) => void }>();
  #client: pg.Client | undefined;
  #retry: NodeJS.Timeout | undefined;
  /** Failures since it last listened. */
  #failures = 0;

  constructor(connect: () => pg.Client, channel: string) {
    this.#connect = connect;
    this.#channel = channel;
  }

  watch(changed: (run: RunChange, what?: WhatChanged) => void): () => void {
    // One object per call: the same function may be added twice and removed once.
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
      this.#notify(id === "" ? null : id, grown ? "chunks" : "run");
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
    this.#notify(null);
  }

  #notify(run: RunChange, what: WhatChanged = "run"): void {
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
