import { chown, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigurationError, key as keyOf, once, open } from "onceflow";
import { expect, onTestFinished, test } from "vitest";
import { acquire } from "../../servers/acquire.js";
import { execute } from "../../servers/postgres/databases.js";

test("a hot standby is refused at open, and is opened once it is promoted", async ({ skip }) => {
  const acquired = await acquire("postgres");
  if (!acquired.ok) return skip(acquired.reason);
  const { url, folder, kill, restart, stop } = acquired.running;
  if (folder === undefined || kill === undefined || restart === undefined)
    return skip("the tests did not start this server, so they cannot restart it");
  onTestFinished(() => stop());
  const store = await open(url, { stallMsMax: 0 });
  await once(store, { key: keyOf.of("before") }, () => 1);
  await store.close();

  await kill();
  const signal = join(folder, "data", "standby.signal");
  await writeFile(signal, "");
  const { uid, gid } = await stat(join(folder, "data"));
  await chown(signal, uid, gid);
  await restart();

  const error = await open(url, { connectMs: 60_000 }).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(ConfigurationError);
  expect(error).toMatchObject({ code: "POSTGRES_STANDBY", message: expect.stringContaining("connect to its primary") });

  await execute(url, "SELECT pg_promote()");
  const promoted = await open(url, { stallMsMax: 0 });
  expect(await once(promoted, { key: keyOf.of("before") }, () => 2)).toMatchObject({ status: "replayed", value: 1 });
  await promoted.close();
}, 120_000);
