import { open } from "onceflow";
import { inject, onTestFinished, test } from "vitest";
import { takeTurns } from "../../kit/heavy.js";
import { acquire } from "../../servers/acquire.js";
import { freshTable } from "../../servers/dynamodb/tables.js";
import { chargeThroughRestarts } from "../restarts.js";

takeTurns();

/**
 * The test kills its own server, which has its data in a file. AWS does not lose what it has acknowledged. The emulator
 * keeps that promise when its process dies, though not when the machine does.
 */
test.skipIf(!inject("dynamodb").ok)(
  "DynamoDB Local is killed and restarted under load: every key runs once, and no caller hangs",
  async ({ skip }) => {
    const acquired = await acquire("dynamodbOnDisk");
    if (!acquired.ok) return skip(acquired.reason);
    const { url, kill, restart, stop } = acquired.running;
    if (kill === undefined || restart === undefined) return skip("the tests did not start this server, so they cannot kill it");
    onTestFinished(() => stop());
    const store = await open(freshTable(url).url);
    onTestFinished(() => store.close());
    await chargeThroughRestarts({ stores: [store], kill, restart, keys: 100, customers: 12, kills: 2 });
  },
);
