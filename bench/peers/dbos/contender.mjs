import { DBOS } from "@dbos-inc/dbos-sdk";

/** See Contender in bench/workflow/contender.ts. */
export async function open({ url, hooks, poolSize = 20 }) {
  DBOS.setConfig({ name: "bench", systemDatabaseUrl: url, systemDatabasePoolSize: poolSize, logLevel: "error" });

  const threeSteps = DBOS.registerWorkflow(
    async (n) => {
      const a = await DBOS.runStep(async () => n + 1, { name: "s1" });
      const b = await DBOS.runStep(async () => a + 1, { name: "s2" });
      return await DBOS.runStep(async () => b + 1, { name: "s3" });
    },
    { name: "threeSteps" },
  );

  const manySteps = DBOS.registerWorkflow(
    async (steps) => {
      let n = 0;
      for (let i = 0; i < steps; i++) {
        const before = n;
        n = await DBOS.runStep(
          async () => {
            hooks.step();
            return before + 1;
          },
          { name: "add" },
        );
      }
      return n;
    },
    { name: "manySteps" },
  );

  const sleeper = DBOS.registerWorkflow(
    async (index, dueAt) => {
      await DBOS.sleepms(Math.max(0, dueAt - Date.now()));
      hooks.woke(index);
    },
    { name: "sleeper" },
  );

  await DBOS.launch();
  return {
    // A direct call returns after the commit of the outcome, without polling for it.
    run: () => threeSteps(1),
    longRun: (steps) => manySteps(steps),
    sleep: (index, dueAt) => DBOS.startWorkflow(sleeper)(index, dueAt),
    close: () => DBOS.shutdown(),
  };
}
