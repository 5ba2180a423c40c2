import { decode, encodeLater, renamed, withinBytes } from "../core/codec.js";
import { InvalidInputError, NotUnknownError } from "../core/errors.js";
import { checkName } from "../core/key.js";
import { oneOf } from "../core/options.js";
import { newOwner } from "../core/owner.js";
import { type RunRecord, type RunStatus, runStatuses } from "../core/run.js";
import type { Store } from "../core/store.js";
import { encodeError } from "../core/stored-error.js";
import { HookNotFoundError, RunNotFoundError } from "./errors.js";
import { readAttempts } from "./read-journal.js";
import { Run } from "./run-handle.js";
import { sendMail } from "./send-mail.js";
import { storedAs, webhookOf, webhookRecordOf } from "./webhook.js";
import { readingStore } from "./workers.js";

export interface InStore {
  /** Default: the process's own store. */
  readonly store?: Store;
}

/** A handle on a run. It need not exist: ask `run.exists`. */
export function getRun<Result = unknown>(id: string, { store }: InStore = {}): Run<Result> {
  checkName("key", id);
  return new Run<Result>(id, store);
}

export interface ResumeOptions extends InStore {
  /** The same key again is not delivered again. */
  readonly key?: string;
}

/**
 * Delivers a payload to the hook that has this token. It is durable when this resolves.
 *
 * @example
 * await resumeHook("approval:order-1", { approved: true }, { key: webhook.id });
 */
export async function resumeHook(
  token: string,
  payload: unknown,
  { store: given, key }: ResumeOptions = {},
): Promise<{ readonly runId: string }> {
  const store = await readingStore(given);
  if (key !== undefined) checkName("key", key);
  const named = key === undefined ? newOwner() : `${token}\0${key}`;
  const text = await keptValue("payload", payload, store);
  const answer = await sendMail(store, { to: { token }, kind: "hook", about: null, payload: text, key: named });
  if (answer.kind !== "sent") throw new HookNotFoundError(token);
  return { runId: answer.run };
}

async function keptValue(what: string, value: unknown, { valueBytesMax }: Store): Promise<string> {
  try {
    return withinBytes(what, await encodeLater(value, valueBytesMax), valueBytesMax);
  } catch (error) {
    throw renamed(what, error);
  }
}

export interface HookInfo {
  readonly token: string;
  readonly runId: string;
  readonly metadata: unknown;
  readonly createdAt: Date;
}

export async function getHookByToken(token: string, { store: given }: InStore = {}): Promise<HookInfo> {
  const { runs } = await readingStore(given);
  const webhook = await runs.hook(storedAs(token));
  const hook = webhookOf(webhook, token) ? webhook : await runs.hook(token);
  if (hook === undefined) throw new HookNotFoundError(token);
  const metadata = hook.metadata === null ? undefined : (webhookRecordOf(hook) ?? { metadata: decode(hook.metadata) }).metadata;
  return { token, runId: hook.run, metadata, createdAt: new Date(hook.createdAt) };
}

export interface StepRef extends InStore {
  readonly runId: string;
  readonly stepId: string;
  /** The attempt in doubt. */
  readonly attempt: number;
}

export type StepResolution = { readonly completed: unknown } | { readonly failed: unknown } | "notApplied";

/** Says what became of a step whose outcome is unknown; its run goes on. NotUnknownError when that attempt is not in doubt. */
export async function resolveStep({ store: given, runId, stepId, attempt }: StepRef, resolution: StepResolution): Promise<void> {
  const store = await readingStore(given);
  const payload = JSON.stringify({ attempt, to: await resolutionOf(resolution, store) });
  if ((await store.runs.read(runId)) === undefined) throw new RunNotFoundError(runId);
  const last = (await readAttempts(runId, stepId, { store })).at(-1);
  if (last?.attempt !== attempt || last.verdict !== "unknown") {
    const found = last ? `attempt ${last.attempt} is ${last.verdict}` : "there is no such step in this run";
    throw new NotUnknownError({ scope: runId, key: stepId, attempt }, found);
  }
  const answer = await sendMail(store, { to: { run: runId }, kind: "resolve", about: stepId, payload, key: newOwner() });
  if (answer.kind === "absent") throw new RunNotFoundError(runId);
}

async function resolutionOf(resolution: StepResolution, store: Store) {
  if (resolution === "notApplied") return resolution;
  if (typeof resolution === "object" && resolution !== null) {
    if ("completed" in resolution) return { done: await keptValue("completed", resolution.completed, store) };
    if ("failed" in resolution) return { fail: encodeError(resolution.failed) };
  }
  throw new InvalidInputError("resolution", 'must be { completed: value }, { failed: error } or "notApplied"');
}

export interface ListRunsOptions extends InStore {
  readonly workflow?: string;
  readonly status?: RunStatus;
  /** Default 100, at most 1000. */
  readonly limit?: number;
  /** Where the last page ended. */
  readonly cursor?: string;
}

export interface RunSummary {
  readonly id: string;
  readonly workflow: string;
  readonly status: RunStatus;
  readonly trouble: string | undefined;
  readonly createdAt: Date;
  readonly startedAt: Date | undefined;
  readonly completedAt: Date | undefined;
  /** Who executes it now. */
  readonly owner: string | undefined;
  readonly parentId: string | undefined;
}

export interface RunPage {
  readonly items: readonly RunSummary[];
  /** Undefined on the last page. */
  readonly cursor: string | undefined;
}

/** Newest first. */
export async function listRuns({ store: given, workflow, status, limit = 100, cursor }: ListRunsOptions = {}): Promise<RunPage> {
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
  const last = runs.at(-1);
  const next = last && runs.length === limit ? `${last.createdAt}:${last.id}` : undefined;
  return { items: runs.map(summaryOf), cursor: next };
}

function positionOf(cursor: string): { createdAt: number; id: string } {
  const [, at, id] = /^(\d+):([\s\S]+)$/.exec(cursor) ?? [];
  if (at === undefined || id === undefined) throw new InvalidInputError("cursor", "is not one that listRuns returned");
  return { createdAt: Number(at), id };
}

function summaryOf(run: RunRecord): RunSummary {
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
  };
}
