import type { Hono } from "hono";
import { InvalidInputError } from "../core/errors/errors.js";
import { oneOf } from "../core/ledger/options.js";
import { executionStatuses } from "../core/packets/packet.js";
import { type ExecutionDetails, type HistoryItem, type Runtime, WaitTimeoutError } from "../exports/graph.js";
import type { AppPolicy } from "./options.js";
import { ServerProblemError } from "./problem.js";
import { nextOf, numberOf, pageOf } from "./query.js";

export function addExecutionRoutes(app: Hono, runtime: Runtime, policy: AppPolicy): void {
  app.get("/executions", async (c) => {
    const page = pageOf(c);
    const { flow, status, scope } = c.req.query();
    if (status !== undefined) oneOf("status", status, executionStatuses);
    const executions = await runtime.executions({
      ...page,
      ...(flow === undefined ? {} : { flow }),
      ...(scope === undefined ? {} : { scope }),
      ...(status === undefined ? {} : { status: status as (typeof executionStatuses)[number] }),
    });
    return c.json({ executions, ...nextOf(executions, page) });
  });

  app.get("/executions/:execution", async (c) => {
    const id = c.req.param("execution");
    const waitMs = Math.min((numberOf(c, "wait") ?? 0) * 1000, policy.waitMsMax);
    const found = await findExecution(runtime, id);
    if (found === undefined) throw new ServerProblemError("execution-unknown");
    if (found.status !== "running" || waitMs === 0) return c.json(found);
    const signal = AbortSignal.any([c.req.raw.signal, policy.signal]);
    return c.json(await waitForEnd(runtime, found, waitMs, signal));
  });

  app.get("/executions/:execution/history", async (c) => {
    const { cursor, values = "false" } = c.req.query();
    oneOf("values", values, ["true", "false"]);
    const found = await findExecution(runtime, c.req.param("execution"));
    if (found === undefined) throw new ServerProblemError("execution-unknown");
    const query = { limit: numberOf(c, "limit") ?? 100, ...(cursor === undefined ? {} : { cursor }) };
    const { items, next } = await runtime.history(found.id, query);
    return c.json({ history: values === "true" ? items : items.map(withoutValues), next });
  });
}

/** A message may repeat a value. */
function withoutValues({ values: _, message: _m, ...item }: HistoryItem): Omit<HistoryItem, "values" | "message"> {
  return item;
}

/** A malformed id counts as not found. */
async function findExecution(runtime: Runtime, id: string): Promise<ExecutionDetails | undefined> {
  try {
    return await runtime.execution(id);
  } catch (error) {
    if (error instanceof InvalidInputError) return undefined;
    throw error;
  }
}

/** The execution after it has ended, or as it is when the time or the signal ends the wait. */
async function waitForEnd(runtime: Runtime, found: ExecutionDetails, timeoutMs: number, signal: AbortSignal): Promise<ExecutionDetails> {
  try {
    return await runtime.wait(found.id, { timeoutMs, signal });
  } catch (error) {
    if (signal.aborted || error instanceof WaitTimeoutError) return (await findExecution(runtime, found.id)) ?? found;
    throw error;
  }
}
