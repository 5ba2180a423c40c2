import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { checkName } from "../../core/ledger/key.js";
import { duration } from "../../core/ledger/options.js";
import { newOwner } from "../../core/ledger/owner.js";
import type { HookRecord } from "../../core/runs/run.js";
import { decode } from "../../core/values/codec.js";
import { checkStorable } from "../../core/values/storable-text.js";
import { HookNotFoundError } from "../define/errors.js";
import { storedAs, webhookOf, webhookRecordOf } from "../hooks/webhook.js";
import { readingStore } from "../process/ambient-store.js";
import { hookAppears } from "../waiting/hook-appears.js";
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
  return { ...hookInfoOf(hook), token };
}

/** The token is that of the store: see `storedAs`. */
export function hookInfoOf(hook: HookRecord): HookInfo {
  const metadata = hook.metadata === null ? undefined : (webhookRecordOf(hook) ?? { metadata: decode(hook.metadata) }).metadata;
  return { token: hook.token, runId: hook.run, hookId: `${hook.run}/${hook.about}`, metadata, createdAt: new Date(hook.createdAt) };
}
