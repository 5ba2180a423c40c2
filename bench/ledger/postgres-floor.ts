import pg from "pg";
import type { Contender } from "../measure.js";
import { fastest, freshKeys, outcome, settledCount, settledKeys } from "./ours.js";
import { type Callers, names } from "./subject.js";

const owner = "floor:1";
const insert = { name: "floor-insert", text: "INSERT INTO floor (key, state, owner, outcome) VALUES ($1, $2, $3, NULL)" };
const update = { name: "floor-update", text: "UPDATE floor SET state = $1, outcome = $2 WHERE key = $3 AND owner = $4" };
const select = { name: "floor-select", text: "SELECT state, owner, outcome FROM floor WHERE key = $1" };
const upsert = {
  name: "floor-upsert",
  text: `INSERT INTO floor AS f (key, state, owner, outcome)
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
    ON CONFLICT (key) DO UPDATE SET state = excluded.state, outcome = excluded.outcome WHERE f.owner = excluded.owner`,
};

/** More connections than callers are useless. Fewer may be faster, because a commit then waits for fewer others. */
const poolSizes: Readonly<Record<Callers, readonly number[]>> = { 1: [1], 64: [1, 8, 16, 32] };

interface Write {
  readonly key: string;
  readonly state: string;
  readonly outcome: string | null;
  readonly done: () => void;
  readonly failed: (error: unknown) => void;
}

export interface Chosen {
  readonly contender: Contender;
  readonly connections: number;
}

export class PostgresFloor {
  readonly #url: string;
  readonly #keys = freshKeys();
  readonly #pools: pg.Pool[] = [];

  constructor(url: string) {
    this.#url = url;
  }

  async create(): Promise<void> {
    await this.#pool(1).query(
      'CREATE TABLE floor (key text COLLATE "C" PRIMARY KEY, state text NOT NULL, owner text NOT NULL, outcome text)',
    );
  }

  /** Two prepared statements, each committed by itself, on the best number of connections. */
  bare(callers: Callers, tryMs: number): Promise<Chosen> {
    return this.#best(callers, tryMs, names.bare, (pool) => async () => {
      const key = this.#keys();
      await pool.query({ ...insert, values: [key, "running", owner] });
      await pool.query({ ...update, values: ["completed", outcome, key, owner] });
    });
  }

  async read(callers: Callers, tryMs: number): Promise<Chosen> {
    const fill = settledKeys();
    const keys = Array.from({ length: settledCount }, fill);
    const all = (value: string) => keys.map(() => value);
    await this.#pool(1).query({ ...upsert, values: [keys, all("completed"), all(owner), all(outcome)] });
    const next = settledKeys();
    return await this.#best(callers, tryMs, names.read, (pool) => () => pool.query({ ...select, values: [next()] }));
  }

  /** One prepared statement over arrays for all waiting writes, with one flush in flight. */
  batched(): Contender {
    const pool = this.#pool(1);
    let waiting: Write[] = [];
    let flushing = false;
    const pump = () => {
      if (flushing || waiting.length === 0) return;
      flushing = true;
      setImmediate(() => void flush());
    };
    const flush = async () => {
      // Sorted, because two batches with different orders could deadlock.
      const batch = waiting.sort((a, b) => (a.key < b.key ? -1 : 1));
      waiting = [];
      try {
        const values = [batch.map((w) => w.key), batch.map((w) => w.state), batch.map(() => owner), batch.map((w) => w.outcome)];
        await pool.query({ ...upsert, values });
        for (const { done } of batch) done();
      } catch (error) {
        for (const { failed } of batch) failed(error);
      }
      flushing = false;
      pump();
    };
    const submit = (key: string, state: string, value: string | null) =>
      new Promise<void>((done, failed) => {
        waiting.push({ key, state, outcome: value, done, failed });
        pump();
      });
    const work = async () => {
      const key = this.#keys();
      await submit(key, "running", null);
      await submit(key, "completed", outcome);
    };
    return { name: names.batched, work };
  }

  async close(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.end()));
  }

  async #best(callers: Callers, tryMs: number, name: string, workOn: (pool: pg.Pool) => () => Promise<unknown>): Promise<Chosen> {
    const variants = poolSizes[callers].map((connections) => {
      return { connections, contender: { name, work: workOn(this.#pool(connections)) } };
    });
    const best =
      variants.length === 1
        ? variants[0]?.contender
        : await fastest(
            variants.map((v) => v.contender),
            callers,
            tryMs,
          );
    const chosen = variants.find(({ contender }) => contender === best);
    if (chosen === undefined) throw new Error("no size of the pool was tried");
    return chosen;
  }

  #pool(max: number): pg.Pool {
    const pool = new pg.Pool({ connectionString: this.#url, max });
    this.#pools.push(pool);
    return pool;
  }
}
