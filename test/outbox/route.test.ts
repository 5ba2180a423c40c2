import { open, type Store, type Tx } from "onceflow";
import { createInbox } from "onceflow/inbox";
import { createOutbox, type OutboxMessage } from "onceflow/outbox";
import { Random } from "onceflow/testing";
import type pg from "pg";
import { expect, inject, test } from "vitest";
import { until } from "../kit/until.js";
import { freshDatabase } from "../servers/postgres/databases.js";

const server = inject("postgres");

interface Payload {
  readonly seq: number;
}

/** A broker with a log per key: it keeps the order of each log, mixes the logs, and delivers a message again until it is acknowledged. */
class Broker {
  readonly #logs = new Map<string, OutboxMessage<Payload>[]>();
  readonly #random: Random;
  taken = 0;
  delivered = 0;

  constructor(seed: number) {
    this.#random = new Random(seed);
  }

  take(message: OutboxMessage<Payload>): void {
    const { key: of = "" } = message;
    const log = this.#logs.get(of) ?? [];
    this.#logs.set(of, log);
    log.push(message);
    this.taken += 1;
  }

  /** Delivers until every log is empty. Messages may be added meanwhile. */
  async deliver(to: (message: OutboxMessage<Payload>) => Promise<void>): Promise<void> {
    for (;;) {
      const open = [...this.#logs.values()].filter(({ length }) => length > 0);
      if (open.length === 0) return;
      const log = this.#random.pick(open);
      const [head] = log as [OutboxMessage<Payload>];
      this.delivered += 1;
      const acknowledged = await to(head).then(
        () => !this.#random.chance(0.2),
        () => false,
      );
      if (acknowledged) log.shift();
    }
  }
}

test("from rows to rows: outbox, relays, a broker that repeats, an inbox", async (context) => {
  if (!server.ok) return context.skip(server.reason);
  const [here, there] = [await freshDatabase(server.url), await freshDatabase(server.url)];
  context.onTestFinished(() => Promise.all([here.drop(), there.drop()]).then(() => {}));
  const [shop, other, billing] = [await open(here.url), await open(here.url), await open(there.url)];
  context.onTestFinished(() => Promise.all([shop.close(), other.close(), billing.close()]).then(() => {}));
  const sql = (tx: Tx, text: string, values: unknown[] = []) => (tx as pg.Client).query(text, values);
  await shop.transact((tx) => sql(tx, "CREATE TABLE orders (customer text, seq int, PRIMARY KEY (customer, seq))"));
  await billing.transact((tx) => sql(tx, "CREATE TABLE bills (n serial, customer text, seq int)"));

  const random = new Random(7);
  const broker = new Broker(8);
  const outboxes = [shop, other].map((store) => ({ store, outbox: createOutbox<Payload>(store, { name: "orders", backoffMs: 1 }) }));
  for (const { outbox } of outboxes)
    outbox.relay(
      (message) => {
        if (random.chance(0.1)) throw new Error("the broker is unreachable");
        broker.take(message);
        // The broker has the message, and its reply is lost.
        if (broker.taken % 5 === 0) throw new Error("no reply");
      },
      { pollMs: 100 },
    );

  /** Places an order: the next number, a row, a message. Sometimes it is rolled back. */
  const place = async ({ store, outbox }: (typeof outboxes)[number], customer: string): Promise<void> => {
    await store
      .transact(async (tx) => {
        await sql(tx, "SELECT pg_advisory_xact_lock(hashtext($1))", [customer]);
        const { rows } = await sql(
          tx,
          "INSERT INTO orders SELECT $1, coalesce(max(seq), 0) + 1 FROM orders WHERE customer = $1 RETURNING seq",
          [customer],
        );
        const [{ seq }] = rows as [Payload];
        await outbox.add(tx, { key: customer, payload: { seq } });
        if (random.chance(0.2)) throw new Error("sold out");
      })
      .catch((error: Error) => expect(error.message).toBe("sold out"));
  };
  const customers = ["a", "b", "c"];
  for (let i = 0; i < 8; i++) await Promise.all(customers.flatMap((customer) => outboxes.map((at) => place(at, customer))));
  await until("nothing is pending", async () =>
    Object.values(await (outboxes[0] as (typeof outboxes)[number]).outbox.pending()).every((count) => count === 0),
  );

  const consume = consumerOf(billing, (tx, { key: customer, payload }) =>
    sql(tx, "INSERT INTO bills (customer, seq) VALUES ($1, $2)", [customer, payload.seq]),
  );
  await broker.deliver(async (message) => {
    await consume(message);
    if (random.chance(0.1)) throw new Error("the consumer died before it could acknowledge");
  });

  const rows = async (store: Store, text: string) => (await store.transact((tx) => sql(tx, text))).rows;
  const orders = await rows(shop, "SELECT customer, seq FROM orders ORDER BY customer, seq");
  expect(await rows(billing, "SELECT customer, seq FROM bills ORDER BY customer, n")).toEqual(orders);
  // Otherwise the test proves nothing.
  expect(orders.length).toBeGreaterThan(20);
  expect(broker.taken).toBeGreaterThan(orders.length);
  expect(broker.delivered).toBeGreaterThan(broker.taken);
});

function consumerOf(store: Store, book: (tx: Tx, message: OutboxMessage<Payload>) => Promise<unknown>) {
  const inbox = createInbox(store, { consumer: "billing", tx: true, order: "perKey" });
  return async (message: OutboxMessage<Payload>) => {
    const { id, payload, key: orderKey = "", redelivered } = message;
    const { status } = await inbox.handle(
      { id, payload, orderKey, redelivered },
      async (_, { tx }) => void (await book(tx as Tx, message)),
    );
    expect(["processed", "duplicate"]).toContain(status);
  };
}
