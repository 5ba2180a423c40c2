import { join } from "node:path";
import { open, type Store } from "onceflow";
import { acquire } from "../../test/servers/acquire.js";

export interface Place {
  readonly title: string;
  readonly store: Store;
  close(): Promise<void>;
}

export async function openPlaces(folder: string): Promise<Place[]> {
  const redis = await acquire("redis");
  if (!redis.ok) throw new Error(`Redis is not available: ${redis.reason}`);
  const { url, stop } = redis.running;
  return [
    await placeOf("Memory", "memory:"),
    await placeOf("SQLite", `sqlite:${join(folder, "flow.db")}`),
    await placeOf("Redis", url, stop),
  ];
}

async function placeOf(title: string, url: string, stop: () => Promise<unknown> = async () => {}): Promise<Place> {
  const store = await open(url);
  return {
    title,
    store,
    async close() {
      await store.close();
      await stop();
    },
  };
}
