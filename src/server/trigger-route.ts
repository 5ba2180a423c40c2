import type { Context, Hono } from "hono";
import type { FlowPlan, Runtime, TriggerOptions } from "../exports/graph.js";
import { readKey } from "../http/key-header.js";
import { Refusal } from "../http/problem.js";
import { jsonBody } from "./body.js";
import { planOf } from "./flow-routes.js";

const keyCharsMax = 255;

/** A packet comes in. Answered when it is durable; where the flow keeps nothing, when its nodes have returned. */
export function addTriggerRoute(app: Hono, runtime: Runtime, bodyBytesMax: number): void {
  app.post("/flows/:flow/trigger", async (c) => {
    const plan = planOf(runtime, c.req.param("flow"));
    const key = readKey(c.req.header("idempotency-key"), keyCharsMax);
    const payload = await jsonBody(c.req.raw, bodyBytesMax);
    const options = { ...(key === undefined ? {} : { key }), ...traceOf(c) };
    const { status, executionId, mismatch } = await runtime.trigger(plan.id, c.req.query("entry"), payload, options);
    if (mismatch) throw new Refusal("mismatch", "send what was sent first, or use a new key");
    if (status === "duplicate") c.header("idempotent-replayed", "true");
    const kept = executionId !== undefined && keeps(plan);
    if (kept) c.header("location", `${prefixOf(c)}/executions/${executionId}`);
    return c.json({ executionId, status }, status === "started" && kept ? 202 : 200);
  });
}

/** Where the app is, inside another one. */
function prefixOf(c: Context): string {
  return c.req.path.replace(/\/flows\/[^/]*\/trigger$/, "");
}

/** Where all of its edges are direct or ephemeral there is no execution to be looked at. */
function keeps({ entries }: FlowPlan): boolean {
  return entries.some(({ delivery }) => delivery.mode !== "direct");
}

/** W3C trace context goes along with the packet. */
function traceOf(c: Context): Pick<TriggerOptions, "traceHeaders"> {
  const found = ["traceparent", "tracestate"].flatMap((name) => {
    const value = c.req.header(name);
    return value === undefined || value.length > 512 ? [] : [[name, value] as const];
  });
  return found.length === 0 ? {} : { traceHeaders: Object.fromEntries(found) };
}
