import type { Context, Hono } from "hono";
import { InvalidInputError } from "../core/errors/errors.js";
import type { DeadLetterDetails, Runtime } from "../exports/graph.js";
import { planOf } from "./flow-routes.js";
import { Refused } from "./problem.js";
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

  app.post("/flows/:flow/dead-letters/:letter/reinject", async (c) => {
    const { id, key, executionId } = await letterOf(runtime, c);
    if (!(await runtime.reinject(id))) throw new Refused("dead-letter-unknown");
    return c.json({ id, key, executionId, status: "reinjected" });
  });

  app.delete("/flows/:flow/dead-letters/:letter", async (c) => {
    const { id } = await letterOf(runtime, c);
    if (!(await runtime.discard(id))) throw new Refused("dead-letter-unknown");
    return c.body(null, 204);
  });
}

/** That of another flow is none of this one. */
async function letterOf(runtime: Runtime, c: Context): Promise<DeadLetterDetails> {
  const { id: flow } = planOf(runtime, c.req.param("flow") ?? "");
  const letter = await runtime.deadLetter(c.req.param("letter") ?? "").catch((error: unknown) => {
    if (error instanceof InvalidInputError) return undefined;
    throw error;
  });
  if (letter?.flow !== flow) throw new Refused("dead-letter-unknown");
  return letter;
}
