import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { ScanCommand } from "@aws-sdk/client-dynamodb";
import { DatabaseSync } from "@photostructure/sqlite";
import { MongoClient } from "mongodb";
import pg from "pg";
import { createClient } from "redis";
import type { TestContext } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { clientOf, freshTable } from "../servers/dynamodb/tables.js";
import { freshMongoDatabase } from "../servers/mongodb/databases.js";
import { freshDatabase } from "../servers/postgres/databases.js";

/** A new, unused database, and what is in it: read by the driver, not through a store. */
export interface CrashDatabase {
  readonly url: string;
  businessRows(): Promise<number>;
  /** Every table and index of onceflow by name, tables with their rows. Empty if no store was ever opened here. */
  ours(): Promise<Readonly<Record<string, unknown>>>;
  /** Writes the rows that version 1 of the schema had for `crash`: one attempt that lapsed, and one that completed it. */
  addOldRecord(): Promise<void>;
  /** Defined if statements run in a server and outlive their client. */
  readonly server?: CrashServer;
}

export interface CrashServer {
  /** Locks an entry of the audit log, for which a purge has to wait after it has removed the records. */
  hold(): Promise<Held>;
}

interface Held {
  /** The server's process that waits for the lock; undefined if there is none. */
  waiting(): Promise<number | undefined>;
  /** Kills that process during its statement. */
  terminate(pid: number): Promise<void>;
  release(): Promise<void>;
  /** Whether that process has ended. */
  over(pid: number): Promise<boolean>;
}

function oldRecord(prefix: string): string {
  return `
    INSERT INTO ${prefix}attempts (scope, key, attempt, owner, started_at, ended_at, verdict) VALUES ('', 'crash', 1, 'old-1', 1, 2, 'lapsed');
    INSERT INTO ${prefix}records (scope, key, state, effect, attempt, owner, created_at, started_at, lease_until, settled_at, horizon_ms,
      reconcile_after_ms, outcome, verdict, rev)
    VALUES ('', 'crash', 'completed', 'keyed', 2, 'old-2', 1, 3, 5, 4, 0, 1, '{"attempt":2}', 'completed', 3)`;
}

// Concurrent tests must clean up through their own context.
type OnTestFinished = TestContext["onTestFinished"];

export async function sqliteDatabase(onTestFinished: OnTestFinished): Promise<CrashDatabase> {
  const folder = temporaryFolder(onTestFinished);
  const path = join(folder, "ledger.db");
  const handle = new DatabaseSync(path);
  onTestFinished(() => handle.close());
  handle.exec("CREATE TABLE business (attempt INTEGER)");
  return {
    url: `sqlite:${path}`,
    businessRows: async () => (handle.prepare("SELECT count(*) AS n FROM business").get() as { n: number }).n,
    ours: async () => {
      const objects = handle.prepare("SELECT type, name FROM sqlite_master WHERE tbl_name LIKE 'onceflow%' ORDER BY name").all();
      const rowsOf = (table: string) => handle.prepare(`SELECT * FROM ${table}`).all();
      return Object.fromEntries(
        (objects as { type: string; name: string }[]).map(({ type, name }) => [name, type === "table" ? rowsOf(name) : type]),
      );
    },
    addOldRecord: async () => void handle.exec(oldRecord("onceflow_")),
  };
}

export async function postgresDatabase(serverUrl: string, onTestFinished: OnTestFinished): Promise<CrashDatabase> {
  const database = await freshDatabase(serverUrl);
  const client = new pg.Client(database.url);
  await client.connect();
  onTestFinished(async () => {
    await client.end();
    await database.drop();
  });
  await client.query("CREATE TABLE business (attempt int)");
  return {
    url: database.url,
    businessRows: async () => Number((await client.query("SELECT count(*) AS n FROM business")).rows[0]?.n),
    ours: async () => {
      const objects = await client.query<{ type: string; name: string }>(
        `SELECT 'schema' AS type, nspname AS name FROM pg_namespace WHERE nspname = 'onceflow'
         UNION ALL SELECT relkind::text, relname FROM pg_class WHERE relnamespace = to_regnamespace('onceflow')
         UNION ALL SELECT 'type', 'type ' || typname FROM pg_type WHERE typnamespace = to_regnamespace('onceflow')
         ORDER BY name`,
      );
      const found: Record<string, unknown> = {};
      for (const { type, name } of objects.rows)
        found[name] = type === "r" ? (await client.query(`SELECT * FROM onceflow.${name} t ORDER BY t::text`)).rows : type;
      return found;
    },
    addOldRecord: async () => void (await client.query(oldRecord("onceflow."))),
    server: {
      async hold() {
        const holder = new pg.Client(database.url);
        await holder.connect();
        onTestFinished(() => holder.end());
        await holder.query("BEGIN");
        const { rowCount } = await holder.query("SELECT FROM onceflow.audit FOR UPDATE");
        if (rowCount === 0) throw new Error("the audit log is empty: there is no row to lock");
        const { rows } = await holder.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
        const holderPid = rows[0]?.pid;
        const pids = async (condition: string, value: unknown) =>
          (await client.query<{ pid: number }>(`SELECT pid FROM pg_stat_activity WHERE ${condition}`, [value])).rows.map(({ pid }) => pid);
        return {
          waiting: async () => (await pids("$1 = ANY (pg_blocking_pids(pid))", holderPid))[0],
          terminate: async (pid) => void (await client.query("SELECT pg_terminate_backend($1)", [pid])),
          release: async () => void (await holder.query("COMMIT")),
          over: async (pid) => (await pids("pid = $1", pid)).length === 0,
        };
      },
    },
  };
}

/** A table, without business rows and without older versions of the schema. */
export async function dynamoDatabase(serverUrl: string, onTestFinished: OnTestFinished): Promise<CrashDatabase> {
  const { url, drop } = freshTable(serverUrl);
  const { client, close } = clientOf(serverUrl);
  onTestFinished(async () => {
    await drop();
    close();
  });
  return {
    url,
    ...ledgerOnly,
    ours: async () => {
      const { Items = [] } = await client.send(new ScanCommand({ TableName: new URL(url).pathname.slice(1), ConsistentRead: true }));
      return Object.fromEntries(Items.map((item) => [item["id"]?.S ?? "", item]));
    },
  };
}

export async function redisDatabase(serverUrl: string, onTestFinished: OnTestFinished): Promise<CrashDatabase> {
  const prefix = `crash-${randomUUID()}`;
  const client = createClient({ url: serverUrl });
  await client.connect();
  const names = async () => (await client.keys(`${prefix}*`)).sort();
  onTestFinished(async () => {
    for (const name of await names()) await client.unlink(name);
    await client.close();
  });
  return {
    url: `${serverUrl}?prefix=${prefix}`,
    ...ledgerOnly,
    ours: async () => Object.fromEntries(await Promise.all((await names()).map(async (name) => [name, await client.dump(name)]))),
  };
}

export async function mongoDatabase(serverUrl: string, onTestFinished: OnTestFinished): Promise<CrashDatabase> {
  const { url, drop } = await freshMongoDatabase(serverUrl);
  const client = await new MongoClient(url).connect();
  onTestFinished(async () => {
    await client.close();
    await drop();
  });
  const rowsOf = (name: string) => client.db().collection(name).find().sort({ _id: 1 }).toArray();
  return {
    url,
    ...ledgerOnly,
    ours: async () => {
      const collections = await client.db().listCollections().toArray();
      return Object.fromEntries(await Promise.all(collections.map(async ({ name }) => [name, await rowsOf(name)])));
    },
  };
}

/** For features that these databases do not have, and that no row of their crash table needs. */
const none = async () => assert.fail("this database does not have this feature");
const ledgerOnly = { businessRows: none, addOldRecord: none };
