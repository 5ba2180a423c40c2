import { createRequire } from "node:module";
import pg from "pg";

/** Told of every statement that this process sends to its database: ahead of it, and when it is done. */
export interface StatementWatcher {
  before(sql: string): void;
  /** `send` puts another statement behind it, on the same connection; what it returns is waited for where that is not SQLite. */
  after(sql: string, send: (sql: string) => unknown): unknown;
}

/**
 * Stands between the stores and their drivers, from outside: a store that is opened after this is watched. Of the two
 * drivers of SQLite it knows the one that every Node can load.
 */
export function watchStatements(watcher: StatementWatcher): void {
  watchSqlite(watcher);
  watchPostgres(watcher);
}

type Method = (...values: unknown[]) => unknown;

interface SqliteModule {
  readonly DatabaseSync: new (path: string) => { exec(sql: string): unknown; prepare(sql: string): Record<"run" | "get" | "all", Method> };
}

/** The driver's own objects cannot be changed: the store gets a subclass, by the cache of modules. */
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

function watchPostgres({ before, after }: StatementWatcher): void {
  const prototype = pg.Client.prototype as unknown as { query: Method };
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
