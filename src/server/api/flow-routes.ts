import { InvalidInputError } from "../../core/errors/errors.js";
import { executionStatuses } from "../../core/packets/packet.js";
import type { FlowPlan, Runtime } from "../../exports/graph.js";
import { requireAllScopes } from "./caller.js";
import { choice, members, optional, text } from "./fields.js";
import { limitField } from "./keys-routes.js";
import { ApiProblem } from "./problems.js";
import { type Call, type Route, route } from "./route.js";
import { valuesFor } from "./values.js";

const flowField = text("Id of the flow");
const states = { pause: "paused", resume: "active", archive: "archived" } as const;
const flowProblems = ["NO_RUNTIME", "FLOW_NOT_FOUND", "SCOPE_REFUSED"] as const;

/** Flows and executions of the runtime. They belong to no scope. */
export const flowRoutes: readonly Route[] = [
  route({
    id: "listFlows",
    method: "GET",
    path: "/flows",
    about: "List the flows of the runtime of this server",
    role: "view",
    problems: ["NO_RUNTIME", "SCOPE_REFUSED"],
    fields: {},
    answer: "FlowList",
    run: async (call) => {
      const flows = await runtimeOf(call).flows();
      return {
        items: flows.map(({ id, state, plan: { document, summary, entries } }) => ({
          ...{ id, state, title: document.title, version: document.version, summary },
          entries: entries.map(({ node }) => node),
        })),
      };
    },
  }),
  route({
    id: "listExecutions",
    method: "GET",
    path: "/executions",
    about: "List executions of flows, newest first",
    role: "view",
    problems: ["NO_RUNTIME", "SCOPE_REFUSED"],
    fields: {
      flow: optional(text("Only this flow")),
      status: optional(choice("Only this status", executionStatuses)),
      before: optional(text("Continue after this id: next of the previous page", 64)),
      limit: limitField,
    },
    answer: "ExecutionList",
    run: async (call) => {
      const items = await runtimeOf(call).executions(call.input);
      const last = items.at(-1);
      return { items, ...(last !== undefined && items.length === (call.input.limit ?? 100) ? { next: last.id } : {}) };
    },
  }),
  route({
    id: "showExecution",
    method: "GET",
    path: "/execution",
    about: "Show an execution with its input, outputs, notes and open packets",
    role: "view",
    problems: ["NO_RUNTIME", "EXECUTION_NOT_FOUND", "SCOPE_REFUSED"],
    fields: { id: text("Id of the execution", 64) },
    answer: "ExecutionDetails",
    run: async (call) => {
      const found = await executionOf(runtimeOf(call), call.input.id);
      const { input, outputs, ...execution } = found;
      return { ...execution, ...valuesFor(call.caller, () => ({ input, outputs })) };
    },
  }),
  route({
    id: "triggerFlow",
    method: "POST",
    path: "/flows/trigger",
    about: "Send a packet into a flow. The same key again returns the first execution",
    role: "work",
    problems: [...flowProblems, "MISMATCH", "FLOW_ARCHIVED", "FLOW_PAUSED", "NODE_FAILED"],
    fields: {
      flow: flowField,
      entry: optional(text("Entry point, if the flow has several")),
      payload: members("The payload"),
      key: optional(text("Key of this trigger", 512)),
    },
    answer: "Triggered",
    run: async (call) => {
      const runtime = runtimeOf(call);
      const { flow, entry, payload, key } = call.input;
      const { id } = planOf(runtime, flow);
      const { mismatch, status, executionId } = await runtime.trigger(id, entry, payload, key === undefined ? {} : { key });
      if (mismatch) throw new ApiProblem("MISMATCH", "repeat the first payload, or use a new key");
      return { status, executionId };
    },
  }),
  ...(["pause", "resume", "archive"] as const).map((verb) =>
    route({
      id: `${verb}Flow`,
      method: "POST",
      path: `/flows/${verb}`,
      about: { pause: "Pause a flow", resume: "Resume a paused or archived flow", archive: "Archive a flow: it accepts no triggers" }[verb],
      role: "operate",
      problems: flowProblems,
      fields: { flow: flowField },
      answer: "FlowState",
      run: async (call) => {
        const runtime = runtimeOf(call);
        const { id } = planOf(runtime, call.input.flow);
        await runtime[verb](id);
        return { id, state: states[verb] };
      },
    }),
  ),
];

function runtimeOf({ runtime, caller }: Call<object>): Runtime {
  requireAllScopes(caller);
  if (runtime === undefined) throw new ApiProblem("NO_RUNTIME");
  return runtime;
}

function planOf(runtime: Runtime, id: string): FlowPlan {
  const plan = runtime.plan(id);
  if (plan === undefined) throw new ApiProblem("FLOW_NOT_FOUND");
  return plan;
}

async function executionOf(runtime: Runtime, id: string) {
  try {
    const found = await runtime.execution(id);
    if (found !== undefined) return found;
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
  }
  throw new ApiProblem("EXECUTION_NOT_FOUND");
}
