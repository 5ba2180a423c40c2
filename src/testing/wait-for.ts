import { AssertionError } from "node:assert";
import { setTimeout } from "node:timers/promises";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { duration } from "../core/ledger/options.js";
import { hasEnded } from "../core/runs/run.js";
import type { Store } from "../core/store/store.js";
import { getHookByToken, type HookInfo } from "../workflow/client/api.js";
import { type Run, storeOf } from "../workflow/client/run-handle.js";
import { HookNotFoundError, RunNotFoundError } from "../workflow/define/errors.js";
import { decodeEvents } from "../workflow/journal/codec.js";
import { readingStore } from "../workflow/process/ambient-store.js";
import type { Recorded } from "./replay-journal.js";
import { describeSituation, recordOf, situationOf } from "./runner/run-situation.js";

/** Options of `waitForSleep` and `waitForHook`. */
export interface WaitOptions {
  /** Milliseconds of real time after which the call fails. Default 30 000. */
  readonly timeout?: number;
  /** Milliseconds between two reads of the run. Default 100. */
  readonly pollInterval?: number;
}

const waitOptionNames: OptionNames<WaitOptions> = { timeout: true, pollInterval: true };

/**
 * Waits in real time until the run sleeps, and returns the id of the sleep that ends first, such as "sleep#0".
 * With `testWorkflows`, use the method of the same name.
 *
 * @throws AssertionError when the run ends first or `timeout` passes; RunNotFoundError when there is no such run.
 *
 * @example
 * const run = await start(reminder, ["order-1"]);
 * await waitForSleep(run);
 * await run.wakeUp();
 */
export async function waitForSleep(run: Run, options: WaitOptions = {}): Promise<string> {
  knownOptions("waitForSleep", options, waitOptionNames);
  return await waitFor("a sleep", run, options, async (recorded) => situationOf(recorded).sleeps[0]?.id);
}

/**
 * Waits in real time until the run has a hook that has received no payload yet, and returns the hook. With `token`, only a
 * hook with this token counts. With `testWorkflows`, use the method of the same name.
 *
 * @throws AssertionError when the run ends first or `timeout` passes; RunNotFoundError when there is no such run.
 *
 * @example
 * const run = await start(approval, ["doc-1"]);
 * const hook = await waitForHook(run);
 * await resumeHook(hook.token, { approved: true });
 */
export async function waitForHook(run: Run, options: WaitOptions & { readonly token?: string } = {}): Promise<HookInfo> {
  knownOptions("waitForHook", options, { ...waitOptionNames, token: true });
  const { token: wanted } = options;
  const what = wanted === undefined ? "a hook that has received nothing" : `a hook with the token "${wanted}" that has received nothing`;
  return await waitFor(what, run, options, async (recorded, store) => {
    const received = await receivers(recorded, store);
    const isIt = ({ id, token }: { id: string; token: string }) => !received.has(id) && (wanted ?? token) === token;
    const hook = situationOf(recorded).hooks.find(isIt);
    return hook && (await getHookByToken(hook.token, { store }).catch(notYet));
  });
}

async function waitFor<Found>(
  what: string,
  run: Run,
  { timeout = 30_000, pollInterval = 100 }: WaitOptions,
  look: (recorded: Recorded, store: Store) => Promise<Found | undefined>,
): Promise<Found> {
  duration("timeout", timeout);
  duration("pollInterval", pollInterval, 1);
  const store = await readingStore(storeOf(run));
  const deadline = performance.now() + timeout;
  for (;;) {
    const recorded = await recordOf(store, run.id);
    if (recorded === undefined) throw new RunNotFoundError(run.id);
    const found = hasEnded(recorded.run.status) ? undefined : await look(recorded, store);
    if (found !== undefined) return found;
    const late = performance.now() >= deadline;
    if (late || hasEnded(recorded.run.status)) {
      const waited = late ? ` for ${timeout} ms` : "";
      throw new AssertionError({ message: `waited${waited} for ${what}, but ${describeSituation(situationOf(recorded))}` });
    }
    await setTimeout(Math.min(pollInterval, Math.max(1, deadline - performance.now())));
  }
}

/** The hooks that have received a payload, including payloads that are in the run's mail and not yet in its journal. */
async function receivers({ run, journal }: Recorded, store: Store): Promise<ReadonlySet<string>> {
  const received = new Set<string>();
  for (const { events } of journal) for (const event of decodeEvents(events)) if (event.type === "got") received.add(event.id);
  const mail = run.mail > run.consumed ? await store.runs.mail(run.id, run.consumed) : [];
  for (const { kind, about } of mail) if (kind === "hook" && about !== null) received.add(about);
  return received;
}

/** A hook can be in the journal before the commit that creates it is answered: read again. */
function notYet(error: unknown): undefined {
  if (!HookNotFoundError.is(error)) throw error;
  return undefined;
}
