import { createRequire } from "node:module";
import type { CommandStartedEvent, CommandSucceededEvent, MongoClient } from "mongodb";
import type pg from "pg";

/** Called for every statement that this process sends to its database: before it, and after it is done. */
export interface StatementWatcher {
  before(sql: string): void;
  /** `send` sends another statement on the same connection. The returned promise is awaited, except on SQLite. */
  after(sql: string, send: (sql: string) => unknown): unknown;
}

/**
 * Wraps the driver of this URL: a store that is opened after this call is watched. Other drivers are not loaded, because that takes
 * longer than most programs run. Of the two SQLite drivers it wraps the one that every Node version can load.
 */
export async function watchStatements(url: string, watcher: StatementWatcher): Promise<void> {
  if (url.startsWith("sqlite:")) watchSqlite(watcher);
  else if (url.startsWith("postgres:")) watchPostgres((await import("pg")).default, watcher);
  else if (url.startsWith("mongodb:")) watchMongo((await import("mongodb")).MongoClient, watcher);
  else throw new Error(`no statements to watch: ${url}`);
}

type Method = (...values: unknown[]) => unknown;

interface SqliteModule {
  readonly DatabaseSync: new (path: string) => { exec(sql: string): unknown; prepare(sql: string): Record<"run" | "get" | "all", Method> };
}

/** The objects of the driver cannot be changed, so the store gets a subclass through the module cache. */
function watchSqlite({ before, after }: StatementWatcher): void {
  const require = createRequire(import.meta.url);
  const driver = require("@photostructure/sqlite") as SqliteModule;
  class DatabaseSync extends driver.DatabaseSync {
    override exec(sql: string) {
      return this.#watched(sql, () => super.exec(sql));
    }

    override prepare(sql: string) {
      const statement = super.prepare(sql);
      for (const name of ["run", "get", "all"] as const) {
        const method = statement[name];
        const value = (...values: unknown[]) => this.#watched(sql, () => Reflect.apply(method, statement, values));
        Object.defineProperty(statement, name, { value });
      }
      return statement;
    }

    #watched<T>(sql: string, run: () => T): T {
      before(sql);
      const result = run();
      after(sql, (another) => super.exec(another));
      return result;
    }
  }
  const loaded = require.cache[require.resolve("@photostructure/sqlite")];
  if (loaded) loaded.exports = { ...driver, DatabaseSync };
}

function watchPostgres({ Client }: typeof pg, { before, after }: StatementWatcher): void {
  const prototype = Client.prototype as unknown as { query: Method };
  const { query } = prototype;
  prototype.query = function (this: pg.Client, ...values) {
    const [asked] = values as [string | { readonly text: string }];
    const sql = typeof asked === "string" ? asked : asked.text;
    before(sql);
    const answer = Reflect.apply(query, this, values);
    if (!(answer instanceof Promise)) return answer;
    return answer.then(async (result) => {
      await after(sql, (another) => Reflect.apply(query, this, [another]));
      return result;
    });
  };
}

const mongoWrites: Readonly<Record<string, string>> = { insert: "INSERT", update: "UPDATE", delete: "DELETE", findAndModify: "UPDATE" };

const ends: Readonly<Record<string, string>> = { commitTransaction: "COMMIT", abortTransaction: "ROLLBACK" };

/**
 * Commands of MongoDB in the words of SQL: a transaction is BEGIN; and COMMIT, and a command that writes outside of a transaction is
 * a statement.
 */
function watchMongo(Client: typeof MongoClient, { before, after }: StatementWatcher): void {
  const prototype = Client.prototype as unknown as { connect: Method };
  const { connect } = prototype;
  const watched = new WeakSet<MongoClient>();
  const sent = new Map<number, string>();
  prototype.connect = function (this: MongoClient, ...values) {
    if (watched.has(this)) return Reflect.apply(connect, this, values);
    watched.add(this);
    Object.assign(this, { monitorCommands: true });
    this.on("commandStarted", ({ requestId, commandName, command }: CommandStartedEvent) => {
      if (command.startTransaction === true) before("BEGIN;");
      const write = command.autocommit === false ? undefined : mongoWrites[commandName];
      const sql = ends[commandName] ?? write;
      if (sql === undefined) return;
      sent.set(requestId, sql);
      before(sql);
    });
    this.on("commandSucceeded", ({ requestId }: CommandSucceededEvent) => {
      const sql = sent.get(requestId);
      sent.delete(requestId);
      if (sql !== undefined) void after(sql, () => undefined);
    });
    return Reflect.apply(connect, this, values);
  };
}
