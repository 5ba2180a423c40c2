import type { Context, Hono } from "hono";
import { InvalidInputError } from "../core/errors/errors.js";
import type { DeadLetterDetails, Runtime } from "../exports/graph.js";
import { planOf } from "./flow-routes.js";
import { ServerProblemError } from "./problem.js";
import { nextOf, pageOf } from "./query.js";

export function addDeadLetterRoutes(app: Hono, runtime: Runtime): void {
  app.get("/flows/:flow/dead-letters", async (c) => {
    const { id: flow } = planOf(runtime, c.req.param("flow"));
    const page = pageOf(c);
    const queue = c.req.query("queue");
    const deadLetters = await runtime.deadLetters({ flow, ...page, ...(queue === undefined ? {} : { queue }) });
    return c.json({ deadLetters, ...nextOf(deadLetters, page) });
  });

  app.get("/flows/:flow/dead-letters/:letter", async (c) => c.json(await letterOf(runtime, c)));

  // `reinject` is the deprecated name of `retry`.
  for (const [verb, status] of [["retry", "retried"] as const, ["reinject", "reinjected"] as const]) {
    app.post(`/flows/:flow/dead-letters/:letter/${verb}`, async (c) => {
      const { id, key, executionId } = await letterOf(runtime, c);
      if (!(await runtime.retry(id))) throw new ServerProblemError("dead-letter-unknown");
      return c.json({ id, key, executionId, status });
    });
  }

  app.delete("/flows/:flow/dead-letters/:letter", async (c) => {
    const { id } = await letterOf(runtime, c);
    if (!(await runtime.discard(id))) throw new ServerProblemError("dead-letter-unknown");
    return c.body(null, 204);
  });
}

/** A dead letter of another flow counts as not found. */
async function letterOf(runtime: Runtime, c: Context): Promise<DeadLetterDetails> {
  const { id: flow } = planOf(runtime, c.req.param("flow") ?? "");
  const letter = await runtime.deadLetter(c.req.param("letter") ?? "").catch((error: unknown) => {
    if (error instanceof InvalidInputError) return undefined;
    throw error;
  });
  if (letter?.flow !== flow) throw new ServerProblemError("dead-letter-unknown");
  return letter;
}
