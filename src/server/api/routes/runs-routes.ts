import { isPacketAction } from "../../../core/packets/operator.js";
import { runStatuses } from "../../../core/runs/run.js";
import { requireRuns } from "../../../core/store/store.js";
import { decode } from "../../../core/values/codec.js";
import { decodeError } from "../../../core/values/stored-error.js";
import { log } from "../../../operate/runs.js";
import { readAttempts, readJournal } from "../../../workflow/client/read-journal.js";
import { countRuns } from "../../../workflow/client/search/count-runs.js";
import { findRunsByErrorText } from "../../../workflow/client/search/find-error-text.js";
import { listHooks } from "../../../workflow/client/search/list-hooks.js";
import { listRuns, type RunSummary, summaryOf } from "../../../workflow/client/search/list-runs.js";
import { loadAside } from "../../../workflow/journal/aside.js";
import { type ApiCaller, listScope, requireAllScopes } from "../caller.js";
import { attributeField, choice, instant, onlyTrue, optional, text, wholeNumber } from "../fields.js";
import { type Call, type Route, route } from "../route.js";
import { errorFor, readValue, valuesFor } from "../values.js";
import { cursorField, limitField, listScopeField } from "./keys-routes.js";
import { runFor } from "./run-lookup.js";

export const idField = text("Id of the run", 512);

const filterFields = {
  scope: listScopeField,
  idPrefix: optional(text("Only ids that begin with this", 512)),
  workflow: optional(text("Only this workflow, by its stored name")),
  status: optional(choice("Only this status", runStatuses)),
  parentId: optional(text("Only children of this run", 512)),
  createdAfter: optional(instant("Only runs created at this time or later")),
  createdBefore: optional(instant("Only runs created before this time")),
  endedAfter: optional(instant("Only runs that ended at this time or later")),
  endedBefore: optional(instant("Only runs that ended before this time")),
  errorName: optional(text("Only failed runs whose error has this name", 200)),
  errorCode: optional(text("Only failed runs whose error has this code", 200)),
  attribute: optional(attributeField('Only runs with this attribute: {"name": …, "value": …}')),
  needsPerson: optional(onlyTrue("true: only runs that need an operator")),
};

export const runRoutes: readonly Route[] = [
  route({
    id: "listRuns",
    method: "GET",
    path: "/runs",
    about: "List runs, newest first",
    role: "view",
    problems: ["MISSING_CAPABILITY"],
    fields: { ...filterFields, limit: limitField, cursor: cursorField },
    answer: "RunList",
    run: async ({ store, caller, input }) => {
      requireRuns(store);
      const { items, cursor } = await listRuns({ ...filterOf(caller, input), store });
      return { items: items.map((item) => rowFor(caller, item)), cursor };
    },
  }),
  route({
    id: "countRuns",
    method: "GET",
    path: "/runs/count",
    about: "Count runs by status, each up to 10,000. Takes the filters of GET /runs",
    role: "view",
    problems: ["MISSING_CAPABILITY"],
    fields: filterFields,
    answer: "RunCounts",
    run: async ({ store, caller, input }) => {
      requireRuns(store);
      return await countRuns({ ...filterOf(caller, input), store });
    },
  }),
  route({
    id: "findErrorText",
    method: "GET",
    path: "/runs/find",
    about: "Find failed runs by a text in the message of their error, within a time window of at most 31 days",
    role: "view",
    needsValues: true,
    problems: ["MISSING_CAPABILITY"],
    fields: {
      scope: listScopeField,
      text: text("Text in the message", 200),
      createdAfter: instant("Only runs created at this time or later"),
      createdBefore: instant("Only runs created before this time"),
      workflow: filterFields.workflow,
      limit: limitField,
      cursor: cursorField,
    },
    answer: "FoundRuns",
    run: async ({ store, caller, input }) => {
      requireRuns(store);
      const { items, ...rest } = await findRunsByErrorText({ ...filterOf(caller, input), store });
      return { items: items.map((item) => rowFor(caller, item)), ...rest };
    },
  }),
  route({
    id: "listHooks",
    method: "GET",
    path: "/hooks",
    about: "List hooks by token. A token is enough to deliver to its hook, so this needs the role of a delivery",
    role: "work",
    problems: ["MISSING_CAPABILITY", "RUN_NOT_FOUND"],
    fields: { scope: listScopeField, runId: optional(text("Only the hooks of this run", 512)), limit: limitField, cursor: cursorField },
    answer: "HookList",
    run: async ({ store, caller, input }) => {
      requireRuns(store);
      if (input.runId !== undefined) await runFor(caller, store, input.runId);
      const { items, cursor } = await listHooks({ ...filterOf(caller, input), store });
      return { items: items.map(({ metadata, ...hook }) => ({ ...hook, ...valuesFor(caller, () => ({ metadata })) })), cursor };
    },
  }),
  route({
    id: "showRun",
    method: "GET",
    path: "/run",
    about: "Show a run with its arguments, and its result or error",
    role: "view",
    problems: ["RUN_NOT_FOUND"],
    fields: { id: idField },
    answer: "RunDetails",
    run: async ({ store, caller, input }) => {
      const run = await runFor(caller, store, input.id);
      const { error: _, ...row } = rowFor(caller, await summaryOf(store, run)) as Readonly<Record<string, unknown>>;
      const { deadlineAt, status, output } = run;
      const args = await loadAside(store, run.id, run.input);
      const end = await loadAside(store, run.id, output);
      return {
        ...row,
        ...(deadlineAt === null ? {} : { deadlineAt: new Date(deadlineAt) }),
        ...valuesFor(caller, () => ({
          args: readValue(() => decode(args)),
          ...(status === "completed" && end !== null ? { result: readValue(() => decode(end)) } : {}),
        })),
        ...(status === "failed" && end !== null ? { error: errorFor(caller, decodeError(end)) } : {}),
      };
    },
  }),
  route({
    id: "readJournal",
    method: "GET",
    path: "/run/journal",
    about: "Read the journal of a run: its events in order",
    role: "view",
    problems: ["RUN_NOT_FOUND"],
    fields: {
      id: idField,
      after: optional(wholeNumber("Only entries after this number", 0, Number.MAX_SAFE_INTEGER)),
      limit: optional(wholeNumber("Maximum number of entries. Default 100", 1, 1000)),
    },
    answer: "JournalList",
    run: async ({ store, caller, input: { id, after = 0, limit = 100 } }) => {
      await runFor(caller, store, id);
      const items = await readJournal(id, { store, after, limit });
      return { items: items.map(({ detail, ...item }) => ({ ...item, ...valuesFor(caller, () => ({ detail })) })) };
    },
  }),
  route({
    id: "readAttempts",
    method: "GET",
    path: "/run/attempts",
    about: "Read the attempts of a step of a run",
    role: "view",
    problems: ["RUN_NOT_FOUND"],
    fields: { id: idField, stepId: text("Id of the step, as the journal has it", 512) },
    answer: "AttemptList",
    run: async ({ store, caller, input: { id, stepId } }) => {
      await runFor(caller, store, id);
      return { items: await readAttempts(id, stepId, { store }) };
    },
  }),
  route({
    id: "readOperatorLog",
    method: "GET",
    path: "/log",
    about: "Read the operator log, newest first. Without runId: only for callers with all scopes",
    role: "view",
    problems: ["MISSING_CAPABILITY", "RUN_NOT_FOUND", "SCOPE_REFUSED"],
    fields: {
      runId: optional(idField),
      before: optional(wholeNumber("Only actions before this position", 0, Number.MAX_SAFE_INTEGER)),
      limit: limitField,
    },
    answer: "LogList",
    run: async ({ store, caller, input }) => {
      requireRuns(store);
      if (input.runId === undefined) requireAllScopes(caller);
      // The log outlives its runs, and a removed run has no scope any more.
      else if (caller.scopes !== "*") await runFor(caller, store, input.runId);
      const found = await log(store, input);
      // Dead letters and flows belong to no scope; a run may have the name of one.
      const items = caller.scopes === "*" ? found : found.filter(({ action }) => !isPacketAction(action));
      return { items: items.map(({ answer, ...item }) => ({ ...item, ...valuesFor(caller, () => ({ answer })) })) };
    },
  }),
];

/** The caller's scope is part of every filter. */
function filterOf<Filter extends { readonly scope?: string }>(caller: ApiCaller, { scope: given, ...filter }: Filter) {
  const scope = listScope(caller, given);
  return { ...filter, ...(scope === undefined ? {} : { scope }) };
}

/** The message of an error may contain values. */
export function rowFor(caller: Call["caller"], { error, trouble, ...row }: RunSummary): object {
  return {
    ...row,
    ...(trouble === undefined ? {} : valuesFor(caller, () => ({ trouble }))),
    ...(error === undefined ? {} : { error: errorFor(caller, error) }),
  };
}
