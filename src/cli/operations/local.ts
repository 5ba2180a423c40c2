import type { Store } from "../../core/store/store.js";
import { requireRuns } from "../../core/store/store.js";
import { decode } from "../../core/values/codec.js";
import { decodeError } from "../../core/values/stored-error.js";
import { createRuntime, type Runtime } from "../../exports/graph.js";
import { inspect, list } from "../../exports/index.js";
import { countRuns, listRuns, listWorkers, readJournal, start } from "../../exports/workflow/api.js";
import * as keys from "../../operate/keys.js";
import { actOnRun } from "../../operate/run-actions.js";
import * as operate from "../../operate/runs.js";
import { summaryOf } from "../../workflow/client/search/list-runs.js";
import { loadAside } from "../../workflow/journal/aside.js";
import { actorName } from "./actor.js";
import { withoutZeros } from "./count-pages.js";
import { inboxLetters, packetLetters } from "./local-letters.js";
import type { Facts, KeyDetails, Operations, RunDetails, RunErrorText, RunRow } from "./operations.js";
import { plain } from "./plain.js";

/** Operations on a store that this process has opened. `close` before the store is closed. */
export function localOperations(store: Store): { readonly operations: Operations; readonly close: () => Promise<void> } {
  const actor = actorName();
  let runtime: Promise<Runtime> | undefined;
  // It executes no nodes: it reads dead letters, and retries or discards them.
  const client = (): Promise<Runtime> => (runtime ??= createRuntime({ store, documents: [], work: false }));
  const runRows = async (query: Parameters<Operations["runs"]["list"]>[0]) => {
    requireRuns(store);
    return plain(await listRuns({ ...query, store })) as never;
  };
  const operations: Operations = {
    runs: {
      list: runRows,
      count: async (filter) => {
        requireRuns(store);
        return withoutZeros(await countRuns({ ...filter, store }));
      },
      read: (id, options) => readRun(store, id, options),
      journal: async (id, page) => plain(await readJournal(id, { ...page, store })) as never,
      act: async (action, id, options) => {
        const answer = await actOnRun(store, action, id, { ...requestOf(options), actor });
        const { actionId = "", dryRun = false } = options;
        // `wake` answers only how many sleeps it has ended.
        return plain(Object.assign({ runId: id, actionId, repeated: false, dryRun }, answer)) as never;
      },
      start: async ({ workflow, args, ...options }) => {
        requireRuns(store);
        const run = await start({ workflowId: workflow }, args, { ...options, store });
        return { runId: run.id, mismatch: run.mismatch };
      },
      deliver: async (delivery, options) => plain(await operate.deliver(store, delivery, { ...options, actor })) as never,
    },
    keys: {
      list: async (query) => plain(await list(store, query)) as never,
      read: (ref) => readKey(store, ref),
      act: async (action, ref, { as, attempt, ...options }) => {
        const operator = { ...options, actor } as never;
        const attempted = (attempt === undefined ? ref : { ...ref, attempt }) as never;
        if (action === "resolve") return plain(await keys.resolve(store, attempted, resolutionOf(as) as never, operator)) as never;
        return plain(await (action === "release" ? keys.release : keys.erase)(store, attempted, operator)) as never;
      },
    },
    deadLetters: (inbox) => (inbox === undefined ? packetLetters(client, actor) : inboxLetters(store, inbox)),
    workers: async () => {
      requireRuns(store);
      return plain(await listWorkers({ store, limit: 1000, runsMax: 1000 })) as never;
    },
    log: async (query) => plain(await operate.log(store, query)) as never,
  };
  return { operations, close: async () => await (await runtime)?.stop() };
}

/** The options of the functions: a request has `forkId` for the id of the new run, and errors as texts. */
function requestOf({ forkId, as, ...options }: Facts): Facts {
  return { ...options, ...(forkId === undefined ? {} : { id: forkId }), ...(as === undefined ? {} : { as: resolutionOf(as) }) };
}

function resolutionOf(as: unknown): unknown {
  if (typeof as !== "object" || as === null || !("failed" in as)) return as;
  return { failed: new Error((as.failed as { readonly message: string }).message) };
}

async function readRun(store: Store, id: string, { values = false }: { readonly values?: boolean } = {}): Promise<RunDetails | undefined> {
  const run = await requireRuns(store).read(id);
  if (run === undefined) return undefined;
  const { deadlineAt, status } = run;
  const row = plain({ ...(await summaryOf(store, run)), ...(deadlineAt === null ? {} : { deadlineAt: new Date(deadlineAt) }) }) as RunRow;
  const end = run.output === null ? undefined : await loadAside(store, id, run.output);
  const shown = values ? { args: plain(decode(await loadAside(store, id, run.input))) } : {};
  if (end === undefined) return { ...row, ...shown };
  if (status === "failed") return { ...row, ...shown, error: { ...row.error, ...errorText(decodeError(end)) } };
  return { ...row, ...shown, ...(values && status === "completed" ? { result: plain(decode(end)) } : {}) };
}

/** With the causes, which often say more than the error. */
function errorText(error: unknown): RunErrorText & Facts {
  if (!(error instanceof Error)) return { name: typeof error, message: String(error) };
  const { code, cause } = error as Error & { readonly code?: unknown };
  return {
    name: error.name,
    ...(typeof code === "string" || typeof code === "number" ? { code } : {}),
    message: error.message,
    ...(cause === undefined ? {} : { cause: errorText(cause) }),
  };
}

async function readKey(store: Store, ref: { readonly scope: string; readonly key: string }): Promise<KeyDetails | undefined> {
  const found = await inspect(store, ref);
  if (found === undefined) return undefined;
  const { error, ...rest } = found;
  return plain({
    ...rest,
    ...(error === undefined ? {} : { error: { name: error.name, message: error.message } }),
  }) as unknown as KeyDetails;
}
