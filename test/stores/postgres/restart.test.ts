import { open } from "onceflow";
import { inject, onTestFinished, test } from "vitest";
import { acquire } from "../../servers/acquire.js";
import { chargeThroughRestarts } from "../restarts.js";

/** Uses its own server, because the test kills it. */
test.skipIf(!inject("postgres").ok)(
  "PostgreSQL is killed and restarted under load: every key runs once, and no caller hangs",
  async ({ skip }) => {
    const acquired = await acquire("postgres");
    if (!acquired.ok) return skip(acquired.reason);
    const { url, kill, restart, stop } = acquired.running;
    if (kill === undefined || restart === undefined) return skip("the tests did not start this server, so they cannot kill it");
    onTestFinished(() => stop());
    const store = await open(url);
    onTestFinished(() => store.close());
    await chargeThroughRestarts({ stores: [store], kill, restart, keys: 300, customers: 20, kills: 2 });
  },
);
