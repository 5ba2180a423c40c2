import type { Store } from "onceflow";

/** An event in the form in which every version has stored it. */
type StoredEvent = readonly [type: string, about: string, at: number, ...rest: unknown[]];

interface WrittenRun {
  readonly id: string;
  readonly workflow: string;
  readonly events: readonly StoredEvent[];
  /** Encoded; no arguments by default. */
  readonly input?: string;
}

/** Writes a run with this journal, as a worker leaves it that has released the run: the next worker claims it at once. */
export async function writeRun(store: Store, { id, workflow, events, input = "[]" }: WrittenRun): Promise<void> {
  const then = { kind: "release", wakeAt: 0, status: "running", trouble: null } as const;
  const entry = { events: JSON.stringify(events), consumed: null, hooks: [], children: [], then };
  const first = { owner: "another worker", leaseMs: 1000, entry };
  await store.commit({
    run: { verb: "start", id, workflow, input, fingerprint: null, parent: null, creator: `creator of ${id}`, retentionMs: null, first },
  });
}
