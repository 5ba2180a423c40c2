import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { key, open, type Store } from "onceflow";
import { createInbox, type Handled, type InboxOptions, type Message } from "onceflow/inbox";
import { afterAll, beforeAll, describe, inject, test } from "vitest";
import { freshDatabase } from "../servers/postgres/databases.js";

const postgres = inject("postgres");
const redis = inject("redis");

type Drop = () => Promise<void> | void;
const places: Record<string, () => Promise<{ url: string; drop?: Drop } | string>> = {
  memory: async () => ({ url: "memory:" }),
  SQLite: async () => {
    const folder = mkdtempSync(join(tmpdir(), "onceflow-inbox-"));
    return { url: `sqlite:${join(folder, "ledger.db")}`, drop: () => rmSync(folder, { recursive: true, force: true }) };
  },
  PostgreSQL: async () => (postgres.ok ? await freshDatabase(postgres.url) : postgres.reason),
  Redis: async () => (redis.ok ? { url: `${redis.url}?prefix=inbox-${randomUUID()}` } : redis.reason),
};

export interface Payment {
  readonly order: string;
  readonly amount: number;
}

export const paymentOf = (order: string, id = randomUUID() as string, amount = 10): Message<Payment> => ({
  id,
  payload: { order, amount },
});
export const charge = key.template("{{payload.order}}-charge");
export const boom = () => {
  throw new Error("boom");
};
export const statuses = (handled: readonly Handled[]) => handled.map(({ status }) => status);

/** One store, and inboxes on it. */
interface InboxPlace {
  readonly place: string;
  readonly store: Store;
  /** Why there is no store. */
  readonly missing: string | undefined;
  /** A test with a consumer of its own; skipped if there is no store. */
  on(name: string, body: (consumer: string) => Promise<void>): void;
  inboxOf(consumer: string, options?: Partial<InboxOptions>): ReturnType<typeof createInbox>;
}

/** Defines tests on each store. */
export function onEveryPlace(title: string, define: (at: InboxPlace) => void): void {
  describe.each(Object.keys(places))(`${title} on %s`, (place) => {
    let store: Store;
    let missing: string | undefined;
    let drop: Drop | undefined;
    beforeAll(async () => {
      const at = await (places[place] as (typeof places)[string])();
      if (typeof at === "string") missing = at;
      else {
        store = await open(at.url);
        drop = at.drop;
      }
    });
    afterAll(async () => {
      await store?.close();
      await drop?.();
    });
    define({
      place,
      get store() {
        return store;
      },
      get missing() {
        return missing;
      },
      on: (name, body) => test(name, async ({ skip }) => (missing === undefined ? await body(randomUUID()) : skip(missing))),
      inboxOf: (consumer, options = {}) => createInbox(store, { consumer, key: charge, ...options }),
    });
  });
}
