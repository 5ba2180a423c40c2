import { join } from "node:path";
import { OpenWorkflow } from "openworkflow";

/** See Contender in bench/workflow/contender.ts. */
export async function open({ url, folder, hooks, poolSize = 10, concurrency = 50 }) {
  const backend = url ? await onPostgres(url, poolSize) : await onSqlite(folder);

  // The handle of OpenWorkflow polls for the result once a second. To see the end of a run as soon as it is durable, and not
  // before, this watches the write that completes it.
  const waiting = new Map();
  const complete = backend.completeWorkflowRun.bind(backend);
  backend.completeWorkflowRun = async (params) => {
    const run = await complete(params);
    const { id } = params.output ?? {};
    waiting.get(id)?.();
    waiting.delete(id);
    return run;
  };

  const ow = new OpenWorkflow({ backend });
  const threeSteps = ow.defineWorkflow({ name: "threeSteps" }, async ({ input, step }) => {
    const a = await step.run({ name: "s1" }, async () => 1);
    const b = await step.run({ name: "s2" }, async () => a + 1);
    const c = await step.run({ name: "s3" }, async () => b + 1);
    return { id: input.id, c };
  });
  const manySteps = ow.defineWorkflow({ name: "manySteps" }, async ({ input, step }) => {
    let n = 0;
    for (let i = 0; i < input.steps; i++) {
      const before = n;
      n = await step.run({ name: `add ${i}` }, async () => {
        hooks.step();
        return before + 1;
      });
    }
    return { id: input.id, n };
  });
  const sleeper = ow.defineWorkflow({ name: "sleeper" }, async ({ input, step }) => {
    await step.sleep("nap", `${Math.max(0, input.dueAt - Date.now())}ms`);
    hooks.woke(input.index);
    return {};
  });
  const worker = ow.newWorker({ concurrency });
  await worker.start();

  let started = 0;
  const runToEnd = (workflow, input) =>
    new Promise((resolve, reject) => {
      started += 1;
      const id = started;
      waiting.set(id, resolve);
      workflow.run({ ...input, id }).catch(reject);
    });
  return {
    run: () => runToEnd(threeSteps, {}),
    longRun: (steps) => runToEnd(manySteps, { steps }),
    sleep: (index, dueAt) => sleeper.run({ index, dueAt }),
    async close() {
      await worker.stop();
      await backend.stop();
    },
  };
}

async function onPostgres(url, poolSize) {
  const { BackendPostgres } = await import("openworkflow/postgres");
  const { default: postgres } = await import("postgres");
  const forMigrations = await BackendPostgres.connect(url);
  await forMigrations.stop();
  const pool = postgres(url, { max: poolSize, transform: { column: { from: postgres.toCamel } } });
  return BackendPostgres.fromPool(pool);
}

async function onSqlite(folder) {
  const { BackendSqlite } = await import("openworkflow/sqlite");
  const backend = BackendSqlite.connect(join(folder, "openworkflow.db"));
  // It sets WAL itself. The rest is SQLite's default, set here because a build of SQLite may have another one.
  backend.db.exec("PRAGMA synchronous = FULL");
  return backend;
}
