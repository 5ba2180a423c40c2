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
import { History } from "../workflow/journal/history.js";

export interface ReplayOptions extends Recorded {
  readonly workflow: WorkflowFunction;
}

/** A run as the store has it. */
export interface Recorded {
  readonly run: RunRecord;
  readonly journal: readonly JournalEntry[];
  /** Where values that are too long for the journal are read; without it such a journal cannot be replayed. */
  readonly store?: Store;
}

export type Replayed =
  | { readonly kind: "ended"; readonly status: EndStatus; readonly output: string | null }
  /** The journal is at its end, and the code is not: it would go on from here. */
  | { readonly kind: "open" }
  | { readonly kind: "diverged"; readonly why: string };

/**
 * Executes a workflow's code on a journal, and nothing else: no step's body runs, nothing is written. Tells how the
 * code would end, or that it would go on, or that it is not the code that wrote this journal.
 *
 * @example
 * const replayed = await replayJournal({ workflow: order, run, journal: await store.runs.journal(run.id, 0, 1000) });
 */
export async function replayJournal({ workflow, ...recorded }: ReplayOptions): Promise<Replayed> {
  return await replayOn(definitionOf(workflow, "workflow"), recorded);
}

export async function replayOn(definition: WorkflowDefinition, { run, journal, store: from }: Recorded): Promise<Replayed> {
  const store = createStore(memoryBackend(createMemoryLedger()), { purgeEveryMs: 0 });
  let tell: (replayed: Replayed) => void = () => {};
  const over = new Promise<Replayed>((resolve) => {
    tell = resolve;
  });
  let replayed: Replayed = { kind: "open" };
  let pending = 0;
  const end = () => {
    execution.lose(new Error("the replay is over"));
    tell(replayed);
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
    // The first thing that it would write is all that is left to be known; and it is not written.
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
  return await over;
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

/** Whether two ends are the same. Errors without their stacks: those differ between two executions of the same line. */
export function endsAs(one: End, other: End): boolean {
  return one.status === other.status && withoutStack(one) === withoutStack(other);
}

function withoutStack({ status, output }: End): string | null {
  if (status !== "failed" || output === null) return output;
  return JSON.stringify(JSON.parse(output), (name, value: unknown) => (name === "frames" ? undefined : value));
}
