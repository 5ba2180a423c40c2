import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { checkName } from "../../core/ledger/key.js";
import { duration, oneOf } from "../../core/ledger/options.js";
import { newOwner } from "../../core/ledger/owner.js";
import { hasEnded, type RunRecord, type RunStatus, runStatuses } from "../../core/runs/run.js";
import { decode } from "../../core/values/codec.js";
import { checkStorable } from "../../core/values/storable-text.js";
import { HookNotFoundError } from "../define/errors.js";
import { storedAs, webhookOf, webhookRecordOf } from "../hooks/webhook.js";
import { readingStore } from "../process/ambient-store.js";
import { hookAppears } from "../waiting/hook-appears.js";
import { warnIfOverdue } from "../waiting/overdue.js";
import type { InStore } from "./in-store.js";
import { encodeForRun } from "./kept-value.js";
import { Run } from "./run-handle.js";
import { sendMail } from "./send-mail.js";

/**
 * Returns a handle on a run. Does not read the store: `await run.exists` says whether there is such a run. Throws
 * InvalidInputError if the id is invalid.
 *
 * @example
 * const status = await getRun("order-1").status;
 */
export function getRun<Result = unknown>(id: string, options: InStore = {}): Run<Result> {
  knownOptions("getRun", options, { store: true });
  const { store } = options;
  checkName("key", id);
  return new Run<Result>(id, store);
}

/** Options of {@link resumeHook}. */
export interface ResumeOptions extends InStore {
  /** How long to wait for a hook that does not exist yet, for example right after `start`. 0: do not wait. Default 2 s. */
  readonly waitMs?: number;
  /** Deduplicates: a payload with a key that the hook has already received is not delivered again. */
  readonly key?: string;
}

const resumeNames: OptionNames<ResumeOptions> = { store: true, key: true, waitMs: true };

/** The hook that received a payload. */
export interface ResumedHook {
  readonly token: string;
  readonly runId: string;
}

/**
 * Delivers a payload to the hook with this token. Accepts the token or an object that has it, such as the result of
 * `getHookByToken`. The payload is durable when the promise resolves. Throws HookNotFoundError if no active hook has the
 * token within `waitMs`, and InvalidInputError if the payload cannot be stored.
 *
 * @example
 * await resumeHook("approval:order-1", { approved: true }, { key: webhook.id });
 */
export async function resumeHook(
  hook: string | { readonly token: string },
  payload: unknown,
  options: ResumeOptions = {},
): Promise<ResumedHook> {
  knownOptions("resumeHook", options, resumeNames);
  const { store: given, key, waitMs = hookWaitMs } = options;
  duration("waitMs", waitMs);
  const token = tokenOf(hook);
  const store = await readingStore(given);
  checkToken(token);
  if (key !== undefined) checkName("key", key);
  const named = key === undefined ? newOwner() : `${token}\0${key}`;
  const text = await encodeForRun("payload", payload, store);
  const until = store.clock.now() + waitMs;
  for (;;) {
    const answer = await sendMail(store, { to: { token }, kind: "hook", about: null, payload: text, key: named });
    if (answer.kind === "sent") return { token, runId: answer.run };
    if (answer.kind !== "absent" || !(await hookAppears(store, token, until))) throw new HookNotFoundError(token);
  }
}

function tokenOf(hook: unknown): string {
  const token = typeof hook === "object" && hook !== null && "token" in hook ? hook.token : hook;
  if (typeof token !== "string" || token === "") throw new InvalidInputError("hook", "must be a token, or an object with a token");
  return token;
}

/** A run that was just started needs a moment to create its hook. */
const hookWaitMs = 2000;

function checkToken(token: unknown): asserts token is string {
  if (typeof token !== "string" || token === "") throw new InvalidInputError("token", "must be a non-empty string");
  checkStorable("token", token);
}

/** An active hook, as {@link getHookByToken} returns it. */
export interface HookInfo {
  readonly token: string;
  readonly runId: string;
  /** Unique in the store: the id of the run, and the id of the hook in the run's journal. */
  readonly hookId: string;
  readonly metadata: unknown;
  readonly createdAt: Date;
}

/** Returns the active hook or webhook with this token. Throws HookNotFoundError if there is none. */
export async function getHookByToken(token: string, options: InStore = {}): Promise<HookInfo> {
  knownOptions("getHookByToken", options, { store: true });
  const { store: given } = options;
  checkToken(token);
  const { runs } = await readingStore(given);
  const webhook = await runs.hook(storedAs(token));
  const hook = webhookOf(webhook, token) ? webhook : await runs.hook(token);
  if (hook === undefined) throw new HookNotFoundError(token);
  const metadata = hook.metadata === null ? undefined : (webhookRecordOf(hook) ?? { metadata: decode(hook.metadata) }).metadata;
  return { token, runId: hook.run, hookId: `${hook.run}/${hook.about}`, metadata, createdAt: new Date(hook.createdAt) };
}

/** Filters and paging of {@link listRuns}. */
export interface ListRunsOptions extends InStore {
  /** Stored name of the workflow. */
  readonly workflow?: string;
  readonly status?: RunStatus;
  /** Page size, from 1 to 1000. Default 100. */
  readonly limit?: number;
  /** The `cursor` of the previous page. */
  readonly cursor?: string;
}

/** One run in the list of {@link listRuns}. */
export interface RunSummary {
  readonly id: string;
  /** Stored name of the workflow. */
  readonly workflow: string;
  readonly status: RunStatus;
  /** Why the run cannot continue, if its status is unknown, diverged or parked; of a cancelled run, why its cleanup did not end. */
  readonly trouble: string | undefined;
  readonly createdAt: Date;
  readonly startedAt: Date | undefined;
  readonly completedAt: Date | undefined;
  /** Id of the worker that executes the run now. */
  readonly owner: string | undefined;
  readonly parentId: string | undefined;
  /** Number of steps of an ended run whose outcome is still unknown. `resolveStep` settles them; the run is not purged before. */
  readonly unsettled: number;
  /** The run needs an operator: the outcome of a step is unknown, the run is parked, or it was cancelled and its cleanup did not end. */
  readonly needsPerson: boolean;
}

/** One page of {@link listRuns}. */
export interface RunPage {
  readonly items: readonly RunSummary[];
  /** Undefined on the last page. */
  readonly cursor: string | undefined;
}

const listNames: OptionNames<ListRunsOptions> = { store: true, workflow: true, status: true, limit: true, cursor: true };

/**
 * Lists runs, newest first. Throws InvalidInputError if an option is invalid.
 *
 * @example
 * const { items, cursor } = await listRuns({ workflow: "order", status: "failed" });
 */
export async function listRuns(options: ListRunsOptions = {}): Promise<RunPage> {
  knownOptions("listRuns", options, listNames);
  const { store: given, workflow, status, limit = 100, cursor } = options;
  if (!Number.isInteger(limit) || limit < 1 || limit > 1000) throw new InvalidInputError("limit", "must be a whole number from 1 to 1000");
  if (status !== undefined) oneOf("status", status, runStatuses);
  const store = await readingStore(given);
  const after = cursor === undefined ? undefined : positionOf(cursor);
  const runs = await store.runs.list({
    ...(workflow === undefined ? {} : { workflow }),
    ...(status === undefined ? {} : { status }),
    ...(after === undefined ? {} : { after }),
    limit,
  });
  warnIfOverdue(store, runs);
  const last = runs.at(-1);
  const next = last && runs.length === limit ? `${last.createdAt}:${last.id}` : undefined;
  return { items: runs.map(summaryOf), cursor: next };
}

function positionOf(cursor: string): { createdAt: number; id: string } {
  const [, at, id] = /^(\d+):([\s\S]+)$/.exec(cursor) ?? [];
  if (at === undefined || id === undefined) throw new InvalidInputError("cursor", "is not a cursor that listRuns returned");
  return { createdAt: Number(at), id };
}

export function summaryOf(run: RunRecord): RunSummary {
  const date = (at: number | null) => (at === null ? undefined : new Date(at));
  return {
    id: run.id,
    workflow: run.workflow,
    status: run.status,
    trouble: run.trouble ?? undefined,
    createdAt: new Date(run.createdAt),
    startedAt: date(run.startedAt),
    completedAt: date(run.endedAt),
    owner: run.owner ?? undefined,
    parentId: run.parent ?? undefined,
    unsettled: run.unsettled,
    needsPerson: run.status === "unknown" || run.status === "parked" || run.unsettled > 0 || (hasEnded(run.status) && run.trouble !== null),
  };
}
