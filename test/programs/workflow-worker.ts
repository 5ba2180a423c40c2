import { open } from "onceflow";
import { getStepMetadata, step, work, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";

/**
 * A worker with one run, as the recovery test needs it: its step says that it has begun, and then waits to be told to go
 * on, or computes for `busyMs` without ever giving the event loop a turn.
 */
const [url = "", leaseMs = "0", busyMs = "0", role = "start"] = process.argv.slice(2);

process.on("disconnect", () => process.exit());
const say = (what: string) => void process.send?.(what);

const deed = step("deed", async () => {
  const { attempt, signal } = getStepMetadata();
  signal.addEventListener("abort", () => say("aborted"));
  say(`begun ${attempt}`);
  if (busyMs === "0") return await new Promise<number>((resolve) => void process.once("message", () => resolve(attempt)));
  // What was said leaves only with a turn of the event loop.
  await new Promise((resolve) => void setImmediate(resolve));
  const until = performance.now() + Number(busyMs);
  while (performance.now() < until);
  return attempt;
});
export const recovered = workflow("recovered", async () => await deed());

const store = await open(url);
await work(store, { workflows: [recovered], leaseMs: Number(leaseMs) });
if (role === "start") {
  const run = await start(recovered, [], { id: "r-1", store });
  void run.returnValue.then((attempt) => say(`ended ${attempt}`));
}
