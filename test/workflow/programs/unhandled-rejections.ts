import { open } from "onceflow";
import { sleep, step, work, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";

/**
 * A program in which a promise of a run rejects before it is awaited; with "other", a promise of other code rejects, too. It prints what
 * it saw; Node decides how it ends.
 */
const [other = "none", listener = "no", client = "own"] = process.argv.slice(2);

if (listener === "listener") process.on("unhandledRejection", (reason) => console.log(`listener: ${(reason as Error).message}`));
process.on("uncaughtExceptionMonitor", (error, origin) => console.log(`monitor: ${error.message} (${origin})`));
process.on("warning", ({ message }) => console.log(`warning: ${message}`));

/** A client that all runs share: its connection belongs to no run, and rejects every query. */
const asked: ((error: Error) => void)[] = [];
setInterval(() => {
  for (const reject of asked.splice(0)) reject(new Error("connection lost"));
}, 10).unref();
const query = () => new Promise<never>((_, reject) => void asked.push(reject));

const asks = step("asks", async () => {
  const answer = query();
  await new Promise((resolve) => setTimeout(resolve, 50));
  return await answer.catch((error: Error) => `caught: ${error.message}`);
});

const fails = step("fails", async () => Promise.reject(new Error("card declined")), { maxRetries: 0 });
const order = workflow("order", async () => {
  if (client === "shared") console.log(await asks());
  const early = (async () => await fails())();
  void (async () => {
    await sleep(20);
    throw new Error("never awaited");
  })();
  await sleep(100);
  return await early.catch((error: Error) => `caught: ${error.message}`);
});

const store = await open("memory:");
const worker = await work(store, { workflows: [order] });
console.log(await (await start(order, [], { id: "o-1", store })).returnValue);
if (other === "other") void Promise.reject(new Error("of other code"));
await new Promise((resolve) => setTimeout(resolve, 20));
console.log("goes on");
await worker.stop();
await store.close();
