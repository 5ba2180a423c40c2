import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { buy } from "./customer.js";
import { allProcessesEnded } from "./lifeline.js";
import { newOrders } from "./order.js";
import { type Progress, startProgress } from "./progress.js";
import { reap } from "./reaper.js";
import { report } from "./report.js";
import { Stopped, startRun } from "./run.js";
import { Shop } from "./shop.js";
import { startProvider } from "./start-provider.js";
import { tally } from "./tally.js";

/**
 * Customers order, workers charge through `once`, a reaper kills workers, customers retry. At the end the payment process, which
 * is independent of all this, reports what it has charged.
 */
const workers = 4;
const orderEveryMs = 55;
const deadlineMs = 120_000;

process.exitCode = await main();

async function main(): Promise<number> {
  const orders = newOrders(orderCount());
  const run = startRun(deadlineMs);
  const folder = await mkdtemp(join(tmpdir(), "onceflow-order-payment-"));
  const storeUrl = `sqlite:${encodeURI(join(folder, "shop.db"))}`;
  let progress: Progress | undefined;
  try {
    console.log(`${orders.length} orders, ${workers} worker processes, one SQLite file, and a SIGKILL about every 150 ms.\n`);
    const provider = await startProvider(run);
    const shop = new Shop({ workers, storeUrl, providerUrl: provider.url, run });
    await shop.opened();

    progress = startProgress(orders.length, shop);
    const reaper = reap(shop);
    const purchases = await Promise.all(
      orders.map(async (order, i) => {
        await sleep(i * orderEveryMs, undefined, { signal: shop.signal });
        const receipts = await buy(shop, order);
        progress?.paid();
        return { order, receipts };
      }),
    );
    shop.close();
    await reaper;
    progress.stop();

    const result = await tally(storeUrl, purchases, await provider.book());
    console.log(`\n${report(result, shop.counts, shop.errors)}`);
    return result.problems.length === 0 ? 0 : 1;
  } catch (error) {
    progress?.stop();
    const reason: unknown = run.signal.aborted ? run.signal.reason : error;
    console.error(reason instanceof Stopped ? `\n${reason.message}` : `\nFAILED: ${reason instanceof Error ? reason.message : reason}`);
    return reason instanceof Stopped ? reason.exitCode : 1;
  } finally {
    run.abort();
    await allProcessesEnded();
    await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }
}

function orderCount(): number {
  const count = Number(process.env["ORDERS"] ?? 300);
  if (Number.isInteger(count) && count >= 1 && count <= 1500) return count;
  console.error(`ORDERS must be a whole number from 1 to 1500, not "${process.env["ORDERS"]}"`);
  process.exit(2);
}
