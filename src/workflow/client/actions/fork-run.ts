import { InvalidInputError } from "../../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import { oneOf } from "../../../core/ledger/options.js";
import { newOwner } from "../../../core/ledger/owner.js";
import type { StartRun } from "../../../core/runs/operation.js";
import type { RunRecord } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { ActionRefusedError, RunNotFoundError } from "../../define/errors.js";
import { loadAside, withInputAside, withLongValues, withoutLongValues } from "../../journal/aside.js";
import { decodeEvents, encodeEvents } from "../../journal/codec.js";
import type { Event } from "../../journal/event.js";
import { attributesAfter } from "../../journal/history/attributes.js";
import { readLineage } from "../../journal/history/lineage.js";
import { withoutRetried } from "../../journal/history/retries.js";
import { planFork, positionOf } from "../../journal/plans/fork-plan.js";
import { readingStore } from "../../process/ambient-store.js";
import { readEntries } from "../read-journal.js";
import { checkId, newRunId } from "../run-id.js";
import { type ActionOptions, type ActionResult, actionOptionNames, checkActionOptions, firstAnswer, perform } from "./action.js";
import { timeOf } from "./retry-run.js";

/** Options of {@link forkRun}. */
export interface ForkOptions extends ActionOptions {
  /**
   * The event before which the fork begins to differ: the id of a call ("charge#1"), its stepId, or the place of an event in the journal (`seq` and `index` of
   * `readJournal`).
   */
  readonly from: string | { readonly seq: number; readonly index?: number };
  /** Id of the new run. Default: a new random id. */
  readonly id?: string;
  /**
   * "new" (default): steps after the cut have step ids of the new run, so their effects happen anew. "same": they have the step ids that they would have in the original, so a
   * provider replays its stored answer, errors included.
   */
  readonly keys?: "new" | "same";
}

/** Result of {@link forkRun}. */
export interface ForkResult extends ActionResult {
  /** Id of the new run. */
  readonly forkId: string;
  /** Number of events that were copied. */
  readonly copied: number;
}

const optionNames: OptionNames<ForkOptions> = { ...actionOptionNames, from: true, id: true, keys: true };

/**
 * Starts a new run that has the history of another one up to a chosen event, and goes on from there by itself. Up to the cut, UUIDs, random numbers, step ids and child
 * ids are those of the original; from there on they derive from the new run. The original, its children and its hooks stay as they are. Streams are not
 * copied. Throws ActionRefusedError if a call, child run or hook is open at the cut, or the run had ended there; RunNotFoundError; and InvalidInputError.
 *
 * @example
 * const { forkId } = await forkRun("order-1", { from: "charge#0", reason: "try the other bank" });
 */
export async function forkRun(runId: string, options: ForkOptions): Promise<ForkResult> {
  checkActionOptions("forkRun", options, optionNames);
  const { from, id = newRunId(), keys = "new" } = options;
  checkFrom(from);
  checkId(id);
  oneOf("keys", keys, ["new", "same"]);
  const store = await readingStore(options.store);
  return await firstAnswer({ store, action: "fork", run: runId, options }, () => fork(store, runId, { ...options, id, keys }));
}

async function fork(store: Store, runId: string, options: ForkOptions & Required<Pick<ForkOptions, "id" | "keys">>): Promise<ForkResult> {
  const { from, id, keys } = options;
  const run = await store.runs.read(runId);
  if (run === undefined) throw new RunNotFoundError(runId);
  const copy = await copyBefore(store, run, from);
  const { events } = copy;
  const start = await startOf(store, run, { id, ...copy, at: await timeOf(store), sameKeys: keys === "same" });
  // The store checks it again; here for a dry run.
  if ((await store.runs.read(id)) !== undefined) throw new ActionRefusedError(runId, "exists", `a run with the id "${id}" exists`);
  const answer: Answer = { forkId: id, copied: events.length };
  return await perform({ store, action: "fork", run: runId, id, expect: {}, change: { kind: "start", start }, answer, options });
}

const placeNames: OptionNames<Exclude<ForkOptions["from"], string>> = { seq: true, index: true };

function checkFrom(from: unknown): void {
  if (typeof from === "string") return;
  if (typeof from !== "object" || from === null) throw new InvalidInputError("from", "must be the id of a call, or { seq, index }");
  knownOptions("forkRun: from", from, placeNames);
}

type Answer = Pick<ForkResult, "forkId" | "copied">;

/** A copy of the beginning of a journal, and the run that executed it. */
interface Beginning {
  readonly events: readonly Event[];
  readonly executedBy: string;
  /** The attributes that the run had after these events. */
  readonly attributes: string | null;
}

async function copyBefore(store: Store, { id, attributes: stored }: RunRecord, from: ForkOptions["from"]): Promise<Beginning> {
  const entries = (await readEntries(store, id)).map(({ seq, events }) => ({ seq, events: decodeEvents(events) }));
  const all = entries.flatMap(({ events }) => events);
  const lineage = await readLineage(store, id);
  const position =
    typeof from === "string"
      ? positionOf(
          all,
          callNamed(all, from, (call) => lineage.stepIdOf(id, call)),
        )
      : placeOf(entries, from);
  if (position === undefined) throw new InvalidInputError("from", `is not an event of run "${id}": ${JSON.stringify(from)}`);
  const copy = planFork(all.slice(0, position));
  if ("because" in copy) throw new ActionRefusedError(id, copy.because, whyNot(copy), "ids" in copy ? copy.ids : []);
  // In a fork, what comes before this event is itself a copy: its UUIDs, random numbers and step ids derive from that run.
  const fork = all.slice(position).find((event) => event.type === "fork");
  const before = withoutRetried(all.slice(0, position));
  const attributes = attributesAfter({ events: withoutRetried(all), before }, stored) ?? null;
  return { events: await withLongValues(store, id, copy), executedBy: fork?.run ?? id, attributes };
}

function callNamed(events: readonly Event[], name: string, stepIdOf: (call: string) => string): string {
  const step = events.find((event) => event.type === "step" && stepIdOf(event.id) === name);
  return step !== undefined && "id" in step ? step.id : name;
}

/** The number of events before an event of the journal. */
function placeOf(
  entries: readonly { readonly seq: number; readonly events: readonly Event[] }[],
  { seq, index = 0 }: { readonly seq: number; readonly index?: number },
): number | undefined {
  const entry = entries.find((each) => each.seq === seq);
  if (entry === undefined || !Number.isInteger(index) || index < 0 || index >= entry.events.length) return undefined;
  return entries.filter((each) => each.seq < seq).reduce((sum, each) => sum + each.events.length, index);
}

function whyNot(refusal: Exclude<ReturnType<typeof planFork>, readonly Event[]>): string {
  if (refusal.because === "ended") return "it had ended, or was being cancelled, at this event";
  return `these are open at this event: ${refusal.ids.join(", ")}. The fork would have to take them over; choose an event before them, or after their end`;
}

interface Copy extends Beginning {
  readonly id: string;
  readonly at: number;
  readonly sameKeys: boolean;
}

/** A start with a first entry, and without an owner: any worker claims the run. */
async function startOf(store: Store, run: RunRecord, { id, events, executedBy, attributes, at, sameKeys }: Copy): Promise<StartRun> {
  const input = await loadAside(store, run.id, run.input);
  const { workflow, fingerprint, retentionMs } = run;
  const start = withInputAside(
    {
      ...{ verb: "start", id, workflow, input, fingerprint, parent: null, creator: newOwner(), retentionMs, first: null },
      ...(run.scope === "" ? {} : { scope: run.scope }),
      ...(attributes === null ? {} : { attributes }),
    },
    store.asideBytes,
  );
  // The step ids of the original need the entry, even if nothing is copied.
  if (events.length === 0 && !sameKeys) return start;
  const { events: short, aside } = withoutLongValues([...events, { type: "fork", run: executedBy, at, sameKeys }], store.asideBytes);
  const chunks = aside.length > 0 ? { chunks: aside } : {};
  const then = { kind: "release", wakeAt: at, status: "running", trouble: null } as const;
  const entry = { events: encodeEvents(short), consumed: null, hooks: [], children: [], then, ...chunks };
  return { ...start, first: { owner: newOwner(), leaseMs: 1, entry } };
}
