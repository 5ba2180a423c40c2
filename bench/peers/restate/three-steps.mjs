import { parentPort } from "node:worker_threads";
import * as restate from "@restatedev/restate-sdk";
import { serve } from "./serve.mjs";

/** Runs on its own thread, because callers and services of Restate usually do not share one: that is faster. */
const bench = restate.service({
  name: "bench",
  handlers: {
    threeSteps: async (ctx, n) => {
      const a = await ctx.run("s1", async () => n + 1);
      const b = await ctx.run("s2", async () => a + 1);
      return await ctx.run("s3", async () => b + 1);
    },
  },
});

parentPort.postMessage(await serve([bench]));
