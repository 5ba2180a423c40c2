import { InvalidInputError } from "../../../core/errors/errors.js";
import { executionStatuses } from "../../../core/packets/packet.js";
import type { ExecutionDetails, FlowPlan, Runtime } from "../../../exports/graph.js";
import { listScope, mayUse, requireAllScopes, scopeFor } from "../caller.js";
import { attributeField, attributesField, choice, members, optional, text } from "../fields.js";
import { ApiProblem } from "../problems.js";
import { type Call, type Route, route } from "../route.js";
import { valuesFor } from "../values.js";
import { actionFields, cursorField, limitField, listScopeField, reasonField } from "./keys-routes.js";

const flowField = text("Id of the flow");
const executionField = text("Id of the execution", 64);
const states = { pause: "paused", resume: "active", archive: "archived" } as const;
const flowProblems = ["NO_RUNTIME", "FLOW_NOT_FOUND", "SCOPE_REFUSED"] as const;

/** Flows and executions of the runtime. Flows belong to no scope. */
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
      requireAllScopes(call.caller);
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
      scope: listScopeField,
      flow: optional(text("Only this flow")),
      status: optional(choice("Only this status", executionStatuses)),
      attribute: optional(attributeField('Only executions with this attribute: {"name": …, "value": …}')),
      before: optional(text("Continue after this id: next of the previous page", 64)),
      limit: limitField,
    },
    answer: "ExecutionList",
    run: async (call) => {
      const { scope: given, ...filter } = call.input;
      const scope = listScope(call.caller, given);
      const items = await runtimeOf(call).executions({ ...filter, ...(scope === undefined ? {} : { scope }) });
      const last = items.at(-1);
      return { items, ...(last !== undefined && items.length === (filter.limit ?? 100) ? { next: last.id } : {}) };
    },
  }),
  route({
    id: "showExecution",
    method: "GET",
    path: "/execution",
    about: "Show an execution with its input, outputs, notes and open packets",
    role: "view",
    problems: ["NO_RUNTIME", "EXECUTION_NOT_FOUND"],
    fields: { id: executionField },
    answer: "ExecutionDetails",
    run: async (call) => {
      const { input, outputs, ...execution } = await executionFor(call, call.input.id);
      return { ...execution, ...valuesFor(call.caller, () => ({ input, outputs })) };
    },
  }),
  route({
    id: "readHistory",
    method: "GET",
    path: "/execution/history",
    about: "Read the history of an execution, oldest first: its deliveries, if the runtime records them, and unusual events",
    role: "view",
    problems: ["NO_RUNTIME", "EXECUTION_NOT_FOUND"],
    fields: { id: executionField, limit: limitField, cursor: cursorField },
    answer: "HistoryList",
    run: async (call) => {
      const { id, ...page } = call.input;
      await executionFor(call, id);
      const { items, next } = await runtimeOf(call).history(id, page);
      return {
        items: items.map(({ message, values, ...item }) => ({
          ...item,
          ...(message === undefined && values === undefined ? {} : valuesFor(call.caller, () => ({ message, recorded: values }))),
        })),
        cursor: next,
      };
    },
  }),
  route({
    id: "triggerFlow",
    method: "POST",
    path: "/flows/trigger",
    about: "Send a packet into a flow. The same key again returns the first execution",
    role: "work",
    problems: ["NO_RUNTIME", "FLOW_NOT_FOUND", "SCOPE_REFUSED", "MISMATCH", "FLOW_ARCHIVED", "FLOW_PAUSED", "NODE_FAILED"],
    fields: {
      flow: flowField,
      entry: optional(text("Entry point, if the flow has several")),
      payload: members("The payload"),
      key: optional(text("Key of this trigger. All scopes share the keys of a flow", 512)),
      scope: optional(text("Scope (tenant) of the execution. Default: your only scope", 512)),
      attributes: optional(attributesField("Names and values by which the execution is found")),
    },
    answer: "Triggered",
    run: async (call) => {
      const runtime = runtimeOf(call);
      const { flow, entry, payload, scope: given, ...options } = call.input;
      const scope = scopeFor(call.caller, given);
      const { id } = planOf(runtime, flow);
      const { mismatch, status, executionId } = await runtime.trigger(id, entry, payload, {
        ...options,
        ...(scope === "" ? {} : { scope }),
      });
      if (mismatch) throw new ApiProblem("MISMATCH", "repeat the first payload, or use a new key");
      // The keys of a flow are not divided by scope: the first execution may belong to another one.
      if (status === "duplicate" && executionId !== undefined && (await runtime.execution(executionId))?.scope !== scope)
        throw new ApiProblem("MISMATCH", "the key is in use; put the scope into the key");
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
      fields: { flow: flowField, ...actionFields, reason: optional(reasonField) },
      answer: "FlowState",
      run: async (call) => {
        requireAllScopes(call.caller);
        const runtime = runtimeOf(call);
        const { flow, ...options } = call.input;
        const { id } = planOf(runtime, flow);
        return { id, state: states[verb], ...(await runtime[verb](id, { ...options, actor: call.caller.actor })) };
      },
    }),
  ),
];

function runtimeOf({ runtime }: Call<object>): Runtime {
  if (runtime === undefined) throw new ApiProblem("NO_RUNTIME");
  return runtime;
}

function planOf(runtime: Runtime, id: string): FlowPlan {
  const plan = runtime.plan(id);
  if (plan === undefined) throw new ApiProblem("FLOW_NOT_FOUND");
  return plan;
}

/** An execution of another scope is not found. */
async function executionFor(call: Call<object>, id: string): Promise<ExecutionDetails> {
  const found = await runtimeOf(call)
    .execution(id)
    .catch((error: unknown) => {
      if (error instanceof InvalidInputError) return undefined;
      throw error;
    });
  if (found === undefined || !mayUse(call.caller, found.scope)) throw new ApiProblem("EXECUTION_NOT_FOUND");
  return found;
}
