/** Next calls this when the server starts: runs that an earlier process left unfinished continue here. */
export async function register(): Promise<void> {
  if (process.env.NEXT_RUNTIME !== "nodejs") return;
  const [{ configure, open }, { work }] = await Promise.all([import("onceflow"), import("onceflow/workflow")]);
  await import("./workflows/process-stripe-event");
  const store = await open(process.env.ONCEFLOW_URL ?? "sqlite:./onceflow.db");
  configure({ store });
  await work(store);
}
