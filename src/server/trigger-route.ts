import type { Context, Hono } from "hono";
import type { FlowPlan, Runtime, TriggerOptions } from "../exports/graph.js";
import { readKey } from "../http/key-header.js";
import { Refusal } from "../http/problem.js";
import { jsonBody } from "./body.js";
import { planOf } from "./flow-routes.js";

const keyCharsMax = 255;

/** Triggers a flow. Answers when the packet is durable or, if the flow stores nothing, when its nodes have returned. */
export function addTriggerRoute(app: Hono, runtime: Runtime, bodyBytesMax: number): void {
  app.post("/flows/:flow/trigger", async (c) => {
    const plan = planOf(runtime, c.req.param("flow"));
    const key = readKey(c.req.header("idempotency-key"), keyCharsMax);
    const payload = await jsonBody(c.req.raw, bodyBytesMax);
    const options = { ...(key === undefined ? {} : { key }), ...traceOf(c) };
    const { status, executionId, mismatch } = await runtime.trigger(plan.id, c.req.query("entry"), payload, options);
    if (mismatch) throw new Refusal("mismatch", "repeat the first payload, or use a new key");
    if (status === "duplicate") c.header("idempotent-replayed", "true");
    const kept = executionId !== undefined && keeps(plan);
    if (kept) c.header("location", `${prefixOf(c)}/executions/${executionId}`);
    return c.json({ executionId, status }, status === "started" && kept ? 202 : 200);
  });
}

/** The path that the app is mounted at. */
function prefixOf(c: Context): string {
  return c.req.path.replace(/\/flows\/[^/]*\/trigger$/, "");
}

/** A flow with only direct and ephemeral edges stores no execution that a client could read. */
function keeps({ entries }: FlowPlan): boolean {
  return entries.some(({ delivery }) => delivery.mode !== "direct");
}

/** Passes the W3C trace context on with the packet. */
function traceOf(c: Context): Pick<TriggerOptions, "traceHeaders"> {
  const found = ["traceparent", "tracestate"].flatMap((name) => {
    const value = c.req.header(name);
    return value === undefined || value.length > 512 ? [] : [[name, value] as const];
  });
  return found.length === 0 ? {} : { traceHeaders: Object.fromEntries(found) };
}
