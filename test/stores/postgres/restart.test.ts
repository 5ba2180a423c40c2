import { open } from "onceflow";
import { inject, onTestFinished, test } from "vitest";
import { acquire } from "../../servers/acquire.js";
import { chargeThroughRestarts } from "../restarts.js";

/** A server of its own, because it is killed. */
test.skipIf(!inject("postgres").ok)("PostgreSQL is killed and restarted under load: every key once, nobody hangs", async ({ skip }) => {
  const acquired = await acquire("postgres");
  if (!acquired.ok) return skip(acquired.reason);
  const { url, kill, restart, stop } = acquired.running;
  if (kill === undefined || restart === undefined) return skip("this server is not ours to kill");
  onTestFinished(() => stop());
  const store = await open(url);
  onTestFinished(() => store.close());
  await chargeThroughRestarts({ stores: [store], kill, restart, keys: 300, customers: 20, kills: 2 });
});
