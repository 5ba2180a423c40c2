import { createRequire } from "node:module";
import type { Contender } from "../measure.js";
import { freshKeys, outcome, settledCount, settledKeys } from "./ours.js";
import { names } from "./subject.js";

/** The part of both drivers that is used here. */
export interface Sqlite {
  prepare(sql: string): { run(...values: unknown[]): unknown; get(...values: unknown[]): unknown };
  exec(sql: string): unknown;
  close(): unknown;
}

export type SqliteDriver = "node:sqlite" | "@photostructure/sqlite";

/** The driver that the store uses by default on this Node. */
export function sqliteDriver(): SqliteDriver {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  return major > 22 || (major === 22 && minor >= 13) ? "node:sqlite" : "@photostructure/sqlite";
}

export function connect(path: string, driver: SqliteDriver): Sqlite {
  const { DatabaseSync } = createRequire(import.meta.url)(driver) as { DatabaseSync: new (path: string) => Sqlite };
  const database = new DatabaseSync(path);
  // The same durability as the store's own connection.
  database.exec("PRAGMA journal_mode = WAL");
  database.exec("PRAGMA synchronous = FULL");
  return database;
}

const owner = "floor:1";

export class SqliteFloor {
  readonly #database: Sqlite;
  readonly #begin: (key: string) => void;
  readonly #settle: (key: string) => void;
  readonly #keys = freshKeys();

  constructor(database: Sqlite) {
    this.#database = database;
    database.exec("CREATE TABLE floor (key TEXT PRIMARY KEY, state TEXT NOT NULL, owner TEXT NOT NULL, outcome TEXT)");
    const insert = database.prepare("INSERT INTO floor (key, state, owner, outcome) VALUES (?, ?, ?, NULL)");
    const update = database.prepare("UPDATE floor SET state = ?, outcome = ? WHERE key = ? AND owner = ?");
    this.#begin = (key) => void insert.run(key, "running", owner);
    this.#settle = (key) => void update.run("completed", outcome, key, owner);
  }

  /** Two statements, each durable by itself. */
  bare(): Contender {
    const work = async () => {
      const key = this.#keys();
      this.#begin(key);
      this.#settle(key);
    };
    return { name: names.bare, work };
  }

  /** The same two statements. All that wait in one turn of the event loop share a transaction. */
  batched(): Contender {
    let waiting: { readonly write: () => void; readonly done: () => void }[] = [];
    const flush = () => {
      const batch = waiting;
      waiting = [];
      this.#database.exec("BEGIN IMMEDIATE");
      for (const { write } of batch) write();
      this.#database.exec("COMMIT");
      for (const { done } of batch) done();
    };
    const submit = (write: () => void) =>
      new Promise<void>((done) => {
        if (waiting.length === 0) setImmediate(flush);
        waiting.push({ write, done });
      });
    const work = async () => {
      const key = this.#keys();
      await submit(() => this.#begin(key));
      await submit(() => this.#settle(key));
    };
    return { name: names.batched, work };
  }

  read(): Contender {
    const fill = settledKeys();
    this.#database.exec("BEGIN IMMEDIATE");
    for (let i = 0; i < settledCount; i++) {
      const key = fill();
      this.#begin(key);
      this.#settle(key);
    }
    this.#database.exec("COMMIT");
    const select = this.#database.prepare("SELECT state, owner, outcome FROM floor WHERE key = ?");
    const keys = settledKeys();
    return { name: names.read, work: async () => select.get(keys()) };
  }
}
