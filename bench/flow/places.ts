import { join } from "node:path";
import { open, type Store } from "onceflow";

export interface Place {
  readonly title: string;
  readonly store: Store;
  close(): Promise<void>;
}

export async function openPlaces(folder: string): Promise<Place[]> {
  return [await placeOf("Memory", "memory:"), await placeOf("SQLite", `sqlite:${join(folder, "flow.db")}`)];
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
