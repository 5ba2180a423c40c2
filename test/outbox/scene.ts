import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SqliteTx, Tx } from "onceflow";
import type { OutboxMessage, PublishContext } from "onceflow/outbox";
import type pg from "pg";
import { inject } from "vitest";
import { until } from "../kit/until.js";
import { freshMongoDatabase } from "../servers/mongodb/databases.js";
import { freshDatabase } from "../servers/postgres/databases.js";

const postgres = inject("postgres");
const mongodb = inject("mongodb");

export interface Place {
  readonly url: string;
  readonly drop: () => Promise<void> | void;
}

/** The stores that an outbox is tested on. A text is the reason why one is missing here. */
export const places: Readonly<Record<string, () => Promise<Place | string>>> = {
  memory: async () => ({ url: "memory:", drop: () => {} }),
  SQLite: async () => {
    const folder = mkdtempSync(join(tmpdir(), "onceflow-outbox-"));
    return { url: `sqlite:${join(folder, "outbox.db")}`, drop: () => rmSync(folder, { recursive: true, force: true }) };
  },
  PostgreSQL: async () => (postgres.ok ? await freshDatabase(postgres.url) : postgres.reason),
  "MongoDB (emulator)": async () => (mongodb.ok ? await freshMongoDatabase(mongodb.url) : mongodb.reason),
};

/** Runs a statement with one parameter in the transaction of any store. */
export async function statement(tx: Tx, sql: string, ...values: string[]): Promise<unknown[]> {
  if ("query" in tx) return (await (tx as pg.Client).query(sql.replace("?", "$1"), values)).rows;
  const prepared = (tx as SqliteTx).prepare(sql);
  return /^select/i.test(sql) ? prepared.all(...values) : [prepared.run(...values)];
}

export interface Delivery {
  readonly id: string;
  readonly key: string | undefined;
  readonly payload: unknown;
  readonly attempt: number;
  readonly redelivered: boolean;
}

/** Stands for a broker: records the deliveries, and fails if `refuse` throws. */
export class Broker {
  readonly deliveries: Delivery[] = [];
  /** Throws for a message that the broker refuses. */
  refuse: (message: OutboxMessage) => void = () => {};
  inFlight = new Map<string | undefined, number>();
  inFlightMax = 0;
  overlapped = false;

  readonly publish = async (message: OutboxMessage, { attempt }: PublishContext): Promise<void> => {
    const { id, key, payload, redelivered } = message;
    const before = this.inFlight.get(key) ?? 0;
    if (key !== undefined && before > 0) this.overlapped = true;
    this.inFlight.set(key, before + 1);
    this.inFlightMax = Math.max(
      this.inFlightMax,
      [...this.inFlight.values()].reduce((sum, each) => sum + each, 0),
    );
    try {
      await new Promise<void>((go) => void setImmediate(go));
      this.refuse(message);
      this.deliveries.push({ id, key, payload, attempt, redelivered });
    } finally {
      this.inFlight.set(key, (this.inFlight.get(key) ?? 1) - 1);
    }
  };

  payloadsOf(key: string | undefined): unknown[] {
    return this.deliveries.filter((each) => each.key === key).map(({ payload }) => payload);
  }

  get payloads(): unknown[] {
    return this.deliveries.map(({ payload }) => payload);
  }

  async has(count: number): Promise<void> {
    await until(`${count} messages were delivered`, () => this.deliveries.length >= count);
  }
}
