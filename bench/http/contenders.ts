import { open, type Store } from "onceflow";
import { idempotency } from "onceflow/http/express";
import type { Contender } from "../measure.js";
import { Client } from "./client.js";
import { peer } from "./peer.js";
import { serveShop } from "./servers.js";

export const names = {
  bare: "Express, no keys",
  fresh: "onceflow, new key",
  replayed: "onceflow, replay",
  peerFresh: "@node-idempotency/core, new key",
  peerReplayed: "@node-idempotency/core, replay",
} as const;

const body = JSON.stringify({ amount: 4200, currency: "EUR", customer: "c-1" });

export interface Bench {
  readonly contenders: readonly Contender[];
  readonly store: Store;
  readonly close: () => Promise<void>;
}

/** The same route without and with keys. `peerUrl` is the Redis of the peer. */
export async function prepare(storeUrl: string, peerUrl?: string): Promise<Bench> {
  const client = new Client();
  const store = await open(storeUrl);
  const bare = await serveShop();
  const ours = await serveShop(idempotency({ store, scope: "bench" }));
  const theirs = peerUrl === undefined ? undefined : await peer(peerUrl);
  const theirShop = theirs && (await serveShop(theirs.middleware));
  const run = `${process.pid}-${Date.now()}`;
  let made = 0;
  const post = async (url: string, key: string) => {
    const status = await client.post(url, key, body);
    if (status !== 201) throw new Error(`the server answered ${status}`);
  };
  const fresh = (name: string, url: string): Contender => ({
    name,
    work: () => {
      made += 1;
      return post(url, `${run}-${made}`);
    },
  });
  const replayed = async (name: string, url: string): Promise<Contender> => {
    await post(url, run);
    return { name, work: () => post(url, run) };
  };
  const count = () => store.metrics.flushes;
  return {
    store,
    contenders: [
      fresh(names.bare, bare.url),
      { ...fresh(names.fresh, ours.url), count },
      { ...(await replayed(names.replayed, ours.url)), count },
      ...(theirShop ? [fresh(names.peerFresh, theirShop.url), await replayed(names.peerReplayed, theirShop.url)] : []),
    ],
    async close() {
      client.close();
      await Promise.all([bare.close(), ours.close(), theirShop?.close()]);
      await theirs?.close();
      await store.close();
    },
  };
}
