import type { RunOperation } from "../core/runs/operation.js";
import type { EndStatus, JournalEntry, RunRecord } from "../core/runs/run.js";
import { createStore } from "../core/store/create-store.js";
import type { Store } from "../core/store/store.js";
import { decode } from "../core/values/codec.js";
import { createMemoryLedger, memoryBackend } from "../stores/memory/backend.js";
import { definitionOf, type WorkflowDefinition, type WorkflowFunction } from "../workflow/define/definition.js";
import { Execution } from "../workflow/execute/execution.js";
import type { Host } from "../workflow/execute/host.js";
import { quietHost } from "../workflow/execute/rehearsal.js";
import { loadAside, withLongValues } from "../workflow/journal/aside.js";
import { History } from "../workflow/journal/history/history.js";

/** Options of `replayJournal`. */
export interface ReplayOptions extends Recorded {
  /** The workflow whose code is replayed. */
  readonly workflow: WorkflowFunction;
}

/** A run as the store has recorded it. */
export interface Recorded {
  readonly run: RunRecord;
  /** All journal entries of the run, in order. */
  readonly journal: readonly JournalEntry[];
  /** The store that holds values too long for the journal. Required only if the run has such values. */
  readonly store?: Store;
}

/** The result of a replay. */
export type Replayed =
  /** The code ended. `output` is the encoded return value or error. */
  | { readonly kind: "ended"; readonly status: EndStatus; readonly output: string | null }
  /** The code reached the end of the journal and would continue from there. */
  | { readonly kind: "open" }
  /** The code does not match the journal: it asked for something else at the point that `why` names. */
  | { readonly kind: "diverged"; readonly why: string };

/**
 * Replays a workflow's code on a journal. No step runs, and nothing is written. Use it to check that changed code still
 * matches the journals of runs in production.
 *
 * @throws InvalidInputError when `workflow` is not a function; WorkflowNotRegisteredError when it is not a workflow.
 *
 * @example
 * const replayed = await replayJournal({ workflow: order, run, journal: await store.runs.journal(run.id, 0, 1000) });
 */
export async function replayJournal({ workflow, ...recorded }: ReplayOptions): Promise<Replayed> {
  return await replayOn(definitionOf(workflow, "workflow"), recorded);
}

export async function replayOn(definition: WorkflowDefinition, { run, journal, store: from }: Recorded): Promise<Replayed> {
  const store = createStore(memoryBackend(createMemoryLedger()), { purgeEveryMs: 0 });
  let finish: (replayed: Replayed) => void = () => {};
  const finished = new Promise<Replayed>((resolve) => {
    finish = resolve;
  });
  let replayed: Replayed = { kind: "open" };
  let pending = 0;
  const end = () => {
    execution.lose(new Error("the replay is over"));
    finish(replayed);
  };
  const host: Host = {
    ...quietHost(store, () => run.endedAt ?? run.createdAt),
    touch(touched) {
      if (touched.touched) return;
      touched.touched = true;
      pending += 1;
      store.clock.soon(() => {
        pending -= 1;
        touched.touched = false;
        touched.advance();
        if (pending === 0) end();
      });
    },
    // The first write of the code is the result of the replay. It is not written: the commit never answers.
    commit(operation) {
      replayed = endOf(operation);
      return new Promise(() => {});
    },
  };
  const values = from ?? store;
  const args = decode(await loadAside(values, run.id, run.input)) as unknown[];
  const history = new History(journal);
  history.deliveries = await withLongValues(values, run.id, history.deliveries);
  const fresh = { heldAt: store.clock.now(), seq: journal.length + 1, lapsed: false, mail: [], hooks: [] };
  const startedAt = run.startedAt ?? run.createdAt;
  const execution = new Execution({ host, workflow: definition, run, args, startedAt, history, ...fresh });
  execution.start();
  return await finished;
}

function endOf(operation: RunOperation): Replayed {
  const then = operation.verb === "append" ? operation.entry.then : undefined;
  if (then?.kind === "end") return { kind: "ended", status: then.status, output: then.output };
  return then?.kind === "release" && then.status === "diverged" ? { kind: "diverged", why: then.trouble ?? "" } : { kind: "open" };
}

interface End {
  readonly status: string;
  readonly output: string | null;
}

/** Whether two runs ended alike. Stacks of errors are not compared: they differ between two executions of the same line. */
export function endsAs(one: End, other: End): boolean {
  return one.status === other.status && withoutStack(one) === withoutStack(other);
}

function withoutStack({ status, output }: End): string | null {
  if (status !== "failed" || output === null) return output;
  return JSON.stringify(JSON.parse(output), (name, value: unknown) => (name === "frames" ? undefined : value));
}
