import { open } from "onceflow";
import { inject, onTestFinished, test } from "vitest";
import { takeTurns } from "../../kit/heavy.js";
import { acquire } from "../../servers/acquire.js";
import { freshTable } from "../../servers/dynamodb/tables.js";
import { chargeThroughRestarts } from "../restarts.js";

takeTurns();

/**
 * A server of its own, with its data in a file, because it is killed. AWS does not lose what it has answered; that this
 * emulator does not either, when its process dies and the machine does not, is its own doing.
 */
test.skipIf(!inject("dynamodb").ok)("DynamoDB Local is killed and restarted under load: every key once, nobody hangs", async ({ skip }) => {
  const acquired = await acquire("dynamodbOnDisk");
  if (!acquired.ok) return skip(acquired.reason);
  const { url, kill, restart, stop } = acquired.running;
  if (kill === undefined || restart === undefined) return skip("this server is not ours to kill");
  onTestFinished(() => stop());
  const store = await open(freshTable(url).url);
  onTestFinished(() => store.close());
  await chargeThroughRestarts({ stores: [store], kill, restart, keys: 100, customers: 12, kills: 2 });
});
