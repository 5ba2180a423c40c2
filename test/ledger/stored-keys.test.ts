import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { DatabaseSync } from "@photostructure/sqlite";
import { MismatchError, once, open } from "onceflow";
import pg from "pg";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { loadDynamo, loadMongo, loadRedis, removeRedis } from "../fixtures/0.1.0/keys/contents.js";
import { closeApps } from "../fixtures/0.1.0/keys/http-apps.js";
import { deadLetters } from "../fixtures/0.1.0/keys/inbox-operations.js";
import { redisPrefix } from "../fixtures/0.1.0/keys/names.js";
import { encryption, mismatches } from "../fixtures/0.1.0/keys/once-operations.js";
import { operationsOf, type StoreName, storeNames } from "../fixtures/0.1.0/keys/operations.js";
import { type Call, described, type World } from "../fixtures/0.1.0/keys/world.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { clientOf, freshTable } from "../servers/dynamodb/tables.js";
import { freshMongoDatabase } from "../servers/mongodb/databases.js";
import { freshDatabase } from "../servers/postgres/databases.js";

// Databases that 0.1.0 wrote, and the operations that wrote them: sent again, each is a duplicate.
const folder = join(import.meta.dirname, "../fixtures/0.1.0/keys");
const unzipped = (file: string) => gunzipSync(readFileSync(join(folder, file)));
const parsed = (file: string) => JSON.parse(unzipped(file).toString()) as never;

/** In 0.1.0, keys of edges expire after 30 days. Moves their times, so that their age is the same as when the fixture was written. */
const later = (writtenAt: number) =>
  `SET expires_at = expires_at + ${Date.now() - writtenAt}, gone_at = gone_at + ${Date.now() - writtenAt}`;

const loaders: Readonly<Record<StoreName, (server: string, writtenAt: number) => Promise<string>>> = {
  async sqlite(_server, writtenAt) {
    const copy = temporaryFolder(onTestFinished);
    const file = join(copy, "keys.db");
    writeFileSync(file, unzipped("sqlite.db.gz"));
    const database = new DatabaseSync(file);
    database.exec(`UPDATE onceflow_records ${later(writtenAt)} WHERE expires_at IS NOT NULL`);
    database.close();
    return `sqlite:${file}`;
  },
  async postgres(server, writtenAt) {
    const { url, drop } = await freshDatabase(server);
    onTestFinished(drop);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(unzipped("postgres.sql.gz").toString());
    await client.query(`UPDATE onceflow.records ${later(writtenAt)} WHERE expires_at IS NOT NULL`).finally(() => client.end());
    return url;
  },
  async redis(server) {
    onTestFinished(() => removeRedis(server, redisPrefix));
    await loadRedis(server, parsed("redis.json.gz"));
    return `${server}?prefix=${redisPrefix}`;
  },
  async mongodb(server) {
    const { url, drop } = await freshMongoDatabase(server);
    onTestFinished(drop);
    await loadMongo(url, parsed("mongodb.json.gz"));
    return url;
  },
  async dynamodb(server) {
    const { url, drop } = freshTable(server);
    onTestFinished(drop);
    await (await open(url, { purgeEveryMs: 0 })).close(); // creates the table
    const { client, close } = clientOf(server);
    await loadDynamo(client, new URL(url).pathname.slice(1), parsed("dynamodb.json.gz")).finally(close);
    return url;
  },
};

describe.each(storeNames)("keys that 0.1.0 stored, %s", (name) => {
  const server = name === "sqlite" ? ({ ok: true, url: "" } as const) : inject(name);
  test.skipIf(!server.ok)("every operation that is sent again is a duplicate with the same answer", async () => {
    const written = parsed(`${name}.answers.json.gz`) as {
      readonly writtenAt: number;
      readonly answers: Readonly<Record<string, string>>;
      readonly calls: readonly Call[];
    };
    const url = await loaders[name](server.ok ? server.url : "", written.writtenAt);
    const store = await open(url, { purgeEveryMs: 0 });
    onTestFinished(() => store.close());
    const sealed = await open(url, { purgeEveryMs: 0, encryption });
    onTestFinished(() => sealed.close());
    const world: World = { store, sealed, calls: [...written.calls], writing: false, held: async () => {} };
    onTestFinished(() => closeApps(world));

    const operations = operationsOf(name);
    expect(operations.length).toBeGreaterThan(Object.keys(written.answers).length);
    const answers: Record<string, unknown> = {};
    for (const { name: sent, unfinished, send } of operations) {
      const { duplicate, value } = await send(world);
      answers[sent] = unfinished === undefined ? { duplicate, value: described(value) } : { value: described(value) };
    }
    expect(answers).toEqual(
      Object.fromEntries(
        operations.map(({ name: sent, unfinished }) => [
          sent,
          unfinished === undefined ? { duplicate: true, value: written.answers[sent] } : { value: described(unfinished.value) },
        ]),
      ),
    );

    // At the provider: completed work is not repeated, and unfinished work continues under the same key.
    const expected = countsOf(written.calls);
    for (const { unfinished } of operations) Object.assign(expected, unfinished?.calls);
    expect(countsOf(world.calls)).toEqual(expected);
    const keys = new Map(written.calls.map((call) => [call.name, call.key]));
    expect(world.calls.filter((call) => keys.has(call.name) && keys.get(call.name) !== call.key)).toEqual([]);

    for (const options of mismatches) await expect(once(store, options, () => "another")).rejects.toBeInstanceOf(MismatchError);
    expect(await deadLetters(world)).toEqual([["m-8", 8]]);
  });
});

function countsOf(calls: readonly Call[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { name } of calls) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}
