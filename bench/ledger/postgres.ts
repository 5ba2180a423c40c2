import { open } from "onceflow";
import { acquire } from "../../test/servers/acquire.js";
import { versionOf } from "../conditions.js";
import { ours } from "./ours.js";
import { ask, countReplayWrites } from "./postgres-counters.js";
import { PostgresFloor } from "./postgres-floor.js";
import type { Subject } from "./subject.js";

/** A private server with its own folder and port, so that its counters count our work only. */
export async function postgresSubject(): Promise<Subject> {
  const acquired = await acquire("postgres");
  if (!acquired.ok) throw new Error(`PostgreSQL is not available: ${acquired.reason}`);
  const { running } = acquired;
  const [server] = await ask<{ server_version: string }>(running.url, "SHOW server_version");
  let databases = 0;
  const newDatabase = async () => {
    databases += 1;
    const name = `bench_${process.pid}_${databases}`;
    await ask(running.url, `CREATE DATABASE ${name}`);
    const url = new URL(running.url);
    url.pathname = `/${name}`;
    return url.href;
  };
  // Data that is left behind would be vacuumed during a later measurement.
  const drop = async (url: string) => void (await ask(running.url, `DROP DATABASE ${new URL(url).pathname.slice(1)} WITH (FORCE)`));
  return {
    name: "postgres",
    conditions: {
      postgres: `${server?.server_version.split(" ")[0]}, fsync and synchronous_commit on`,
      "postgres driver": `pg ${versionOf("pg")}`,
    },
    emptyUrl: newDatabase,
    async prepare({ kind, callers, tryMs }) {
      const url = await newDatabase();
      const store = await open(url);
      const floor = new PostgresFloor(url);
      await floor.create();
      const chosen = kind === "executed" ? await floor.bare(callers, tryMs) : await floor.read(callers, tryMs);
      const floors = kind === "executed" ? [chosen.contender, floor.batched()] : [chosen.contender];
      return {
        contenders: [await ours(store, kind), ...floors],
        ...(callers === 1 ? {} : { note: `of 1, 8, 16 and 32 connections, the floor was fastest with ${chosen.connections}` }),
        async close() {
          await floor.close();
          await store.close();
          await drop(url);
        },
      };
    },
    async countReplayWrites(count) {
      const url = await newDatabase();
      const counted = await countReplayWrites(url, count);
      await drop(url);
      return counted;
    },
    async storedBytes(url) {
      const ourTables = "relkind = 'r' AND relnamespace = 'onceflow'::regnamespace";
      const [row] = await ask<{ bytes: string }>(url, `SELECT sum(pg_total_relation_size(oid)) AS bytes FROM pg_class WHERE ${ourTables}`);
      await drop(url);
      return Number(row?.bytes);
    },
    close: () => running.stop(),
  };
}
