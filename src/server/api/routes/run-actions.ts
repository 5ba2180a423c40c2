import { InvalidInputError } from "../../../core/errors/errors.js";
import { runStatuses } from "../../../core/runs/run.js";
import { requireRuns } from "../../../core/store/store.js";
import type { Attributes } from "../../../core/values/attributes.js";
import { sha256 } from "../../../core/values/canonical.js";
import * as operate from "../../../operate/runs.js";
import type { StepResolution } from "../../../workflow/client/resolve-step.js";
import { start } from "../../../workflow/client/start.js";
import { scopeFor } from "../caller.js";
import { attributesField, choice, either, json, jsonArray, members, optional, text, texts, wholeNumber } from "../fields.js";
import { ApiProblem } from "../problems.js";
import { type Call, type Route, route } from "../route.js";
import { givenError } from "./given-error.js";
import { actionFields, reasonField } from "./keys-routes.js";
import { requireHook, runFor } from "./run-lookup.js";
import { idField } from "./runs-routes.js";

const fields = {
  id: idField,
  ...actionFields,
  reason: optional(reasonField),
  ifStatus: optional(choice("Act only if the run has this status", runStatuses)),
};
const forReason = { ...fields, reason: reasonField };
const action = { method: "POST", role: "operate", answer: "RunAction", problems: ["RUN_NOT_FOUND", "ACTION_REFUSED", "STALE"] } as const;
const msMax = Number.MAX_SAFE_INTEGER;

export const runActionRoutes: readonly Route[] = [
  route({
    id: "startRun",
    method: "POST",
    path: "/runs/start",
    about: "Start a run. The same id again returns the run that exists",
    role: "work",
    problems: ["RUN_MISMATCH", "MISSING_CAPABILITY", "SCOPE_REFUSED"],
    fields: {
      workflow: text("Stored name of the workflow"),
      args: optional(jsonArray("The arguments. Default: none")),
      id: optional(text("Id of the run. Default: made of actionId; without one, random", 512)),
      actionId: optional(text("Identifies this request if it has no id: sent again with it, it starts no second run", 512)),
      scope: optional(text("Scope (tenant) of the run. Default: your only scope", 512)),
      attributes: optional(attributesField("Names and values by which the run is found")),
      timeoutMs: optional(wholeNumber("How long the run may take", 1, msMax)),
    },
    answer: "Started",
    run: startRun,
  }),
  route({
    ...action,
    id: "cancelRun",
    path: "/runs/cancel",
    about: "Cancel a run; its code can clean up",
    fields: { ...fields, cleanupMs: optional(wholeNumber("How long the code may clean up", 0, msMax)) },
    run: acting(operate.cancel),
  }),
  route({
    ...action,
    id: "terminateRun",
    path: "/runs/terminate",
    about: "End a run at once",
    fields: forReason,
    run: acting(operate.terminate),
  }),
  route({
    ...action,
    id: "pauseRun",
    path: "/runs/pause",
    about: "Pause a run: its code begins nothing more",
    fields: { ...fields, waitMs: optional(wholeNumber("How long to wait until it is paused. Default 5000", 0, 60_000)) },
    run: acting(operate.pause),
  }),
  route({ ...action, id: "resumeRun", path: "/runs/resume", about: "End a pause", fields, run: acting(operate.resume) }),
  route({
    ...action,
    id: "wakeRun",
    path: "/runs/wake",
    about: "End the sleeps of a run; a parked, diverged or unknown run tries again",
    fields: { ...fields, correlationIds: optional(texts("Only these sleeps")) },
    run: acting(operate.wake),
  }),
  route({
    ...action,
    id: "retryRun",
    path: "/runs/retry",
    about: "Continue a failed run with its failed step",
    fields: {
      ...fields,
      steps: optional(texts("The failed steps to run again. Default: the one that failed")),
      force: optional(texts("Ids of steps, child runs and hooks that began after the failure and may be forgotten")),
    },
    run: acting(operate.retry),
  }),
  route({
    ...action,
    id: "forkRun",
    path: "/runs/fork",
    about: "Start a new run with the history of this one up to an event",
    fields: {
      ...fields,
      from: either(
        "The event: the id of a call or step, or { seq, index }",
        text("", 512),
        members(""),
        "must be an id, or { seq, index }",
      ),
      forkId: optional(text("Id of the new run", 512)),
      keys: optional(choice<"new" | "same">("Whether later steps have new ids", ["new", "same"])),
    },
    run: async ({ store, caller, input: { id, forkId, from, ...options } }) => {
      await runFor(caller, store, id);
      const place = from as string | { readonly seq: number };
      const newRun = forkId === undefined ? {} : { id: forkId };
      return await operate.fork(store, id, { ...options, ...newRun, from: place, actor: caller.actor });
    },
  }),
  route({
    ...action,
    id: "resolveStep",
    path: "/runs/resolve",
    about: "Record what an operator found out about an attempt of a step",
    problems: [...action.problems, "NOT_UNKNOWN"],
    fields: {
      ...forReason,
      stepId: text("Id of the step", 512),
      attempt: wholeNumber("The attempt that was checked", 1, msMax),
      as: either(
        'What was found out: { "completed": result }, { "failed": { name, message, code } }, or "notApplied"',
        choice<"notApplied">("", ["notApplied"]),
        members(""),
        'must be { "completed": … }, { "failed": … } or "notApplied"',
      ),
    },
    run: async ({ store, caller, input: { id, stepId, attempt, as, ...options } }) => {
      await runFor(caller, store, id);
      return await operate.resolve(store, id, { stepId, attempt, as: resolutionOf(as) }, { ...options, actor: caller.actor });
    },
  }),
  route({
    ...action,
    id: "deleteRun",
    path: "/runs/delete",
    about: "Remove an ended run without unknown steps. Its id can be used again",
    fields: forReason,
    run: acting(operate.remove),
  }),
  route({
    id: "deliverToHook",
    method: "POST",
    path: "/hooks/deliver",
    about: "Deliver a payload to a hook",
    role: "work",
    answer: "RunAction",
    problems: ["HOOK_NOT_FOUND", "STALE"],
    fields: {
      token: text("Token of the hook"),
      payload: json("The payload"),
      key: optional(text("A payload with a key that the hook has received is not delivered again", 512)),
      ...actionFields,
      reason: fields.reason,
      ifStatus: fields.ifStatus,
    },
    run: async ({ store, caller, input: { token, payload, key, ...options } }) => {
      await requireHook(caller, store, token);
      const delivery = { token, payload, ...(key === undefined ? {} : { key }) };
      return await operate.deliver(store, delivery, { ...options, actor: caller.actor });
    },
  }),
];

interface ActionInput {
  readonly id: string;
  readonly actionId?: string;
  readonly dryRun?: boolean;
}

/** The route of an action: its other inputs are the options of the function. */
function acting<Input extends ActionInput>(
  act: (store: Call["store"], run: string, options: Omit<Input, "id"> & { readonly actor: string }) => Promise<object>,
) {
  return async ({ store, caller, input }: Call<Input>): Promise<object> => {
    const { id, ...options } = input;
    // A repeated deletion, whose first answer was lost, finds its answer in the log: the run and its scope are gone.
    if (caller.scopes !== "*") await runFor(caller, store, id);
    const answer = await act(store, id, { ...options, actor: caller.actor });
    // Waking answers with the number of sleeps only.
    return { runId: id, actionId: input.actionId ?? "", repeated: false, dryRun: input.dryRun ?? false, ...answer };
  };
}

interface StartInput {
  readonly workflow: string;
  readonly args?: readonly unknown[];
  readonly id?: string;
  readonly actionId?: string;
  readonly scope?: string;
  readonly attributes?: Attributes;
  readonly timeoutMs?: number;
}

async function startRun({ store, caller, input }: Call<StartInput>): Promise<object> {
  requireRuns(store);
  const { workflow, args = [], id: given, actionId, scope: named, ...options } = input;
  const scope = scopeFor(caller, named);
  const made = actionId === undefined ? undefined : `run_${sha256([caller.actor, scope, actionId].join("\0"))}`;
  const id = given ?? made;
  const chosen = { ...options, ...(id === undefined ? {} : { id }), ...(scope === "" ? {} : { scope }) };
  const run = await start({ workflowId: workflow }, args, { ...chosen, store });
  if (run.mismatch) throw new ApiProblem("RUN_MISMATCH");
  return { runId: run.id, mismatch: false };
}

function resolutionOf(as: string | Readonly<Record<string, unknown>>): StepResolution {
  if (typeof as === "string") return "notApplied";
  if (Object.keys(as).length !== 1) throw new InvalidInputError("as", "must have either completed or failed");
  return Object.hasOwn(as, "failed") ? { failed: givenError("as.failed", as["failed"]) } : (as as { readonly completed: unknown });
}
