import { hasEnded, type RunRecord } from "../../../core/runs/run.js";
import { decode, encode } from "../../../core/values/codec.js";
import { decodeEvents } from "../../../workflow/journal/codec.js";
import type { Delivery, Event } from "../../../workflow/journal/event.js";
import { endsAs, replayJournal } from "../../replay-journal.js";
import { PromiseBroken } from "../observer.js";
import { afterRetry, type Noted } from "./after-retry.js";
import type { KnownRun } from "./known-run.js";
import { checkLabels } from "./labels.js";
import { type Script, type SeenOutcome, startOf } from "./script.js";
import type { WorkflowSimulation } from "./simulation.js";
import { type SimulatedChunk, simulatedStream } from "./step-bodies.js";
import { checkRefusals, checkReplayBeforeEnd, entriesBeforeEnd } from "./verify-refused.js";

/** Checks after every run has ended: journals, executions, rows, streams and the calls at the provider must agree. */
export async function verify(simulation: WorkflowSimulation): Promise<void> {
  const { memory, observer, watch, fleet, refusals, actions } = simulation;
  watch.replaying = true;
  actions.verify();
  for (const run of observer.runs()) {
    const record = memory.runs.get(run.id) as RunRecord;
    if (!hasEnded(record.status)) throw new PromiseBroken(`${run.id}: still ${record.status} at the end of the simulation`);
    checkChildEnds(simulation, run);
    checkCalls(simulation, run);
    checkResolutions(simulation, run);
    checkRows(simulation, run);
    checkLabels(simulation, run, record);
    checkStream(simulation, run);
    checkScripts(simulation, run);
    checkRefusals(simulation, run, record);
    // A run that was cancelled under code that does not match its journal cannot be replayed.
    if (fleet.mayDiverge(run.owners.get(run.entries.at(-1)?.epoch ?? 0)?.owner ?? "", run.id)) continue;
    if (refusals.last(run).length > 0) await checkReplayBeforeEnd(simulation, run, record);
    else await checkReplay(simulation, run, record);
  }
  if (observer.broken) throw observer.broken;
}

/** What the run has taken as the end of its own child is how that child ended, also if the child was retried. */
function checkChildEnds({ memory, observer }: WorkflowSimulation, { id, incarnation, origin, journal }: KnownRun): void {
  if (incarnation > 0 || origin !== undefined) return;
  for (const { run, status, output } of journal.childEnds.values()) {
    const child = memory.runs.get(run);
    if (child?.parent !== id || observer.incarnation(run) > 0) continue;
    if (child.status !== status || child.output !== output)
      throw new PromiseBroken(`${id}: took the end "${status}" of its child ${run}, which is ${child.status}`);
  }
}

/** Calls at the provider per step: each belongs to a started attempt, an attempt calls once, and an atMostOnce step calls at most once. */
function checkCalls({ watch }: WorkflowSimulation, known: KnownRun): void {
  const { id: run, journal } = known;
  for (const [id, step] of [...journal.steps, ...journal.retired]) {
    const calls = watch.callsOf(known, id);
    const attempts = step?.attempts ?? 0;
    if (new Set(calls).size !== calls.length)
      throw new PromiseBroken(`${run} ${id}: an attempt called the provider twice; attempts of the calls: ${calls}`);
    if (calls.some((attempt) => attempt < 1 || attempt > attempts))
      throw new PromiseBroken(`${run} ${id}: the provider was called by an attempt without a journal entry`);
    if (id.startsWith("atMostOnce#") && calls.length > 1)
      throw new PromiseBroken(`${run} ${id}: an atMostOnce step called the provider ${calls.length} times`);
  }
}

/** A resolution that succeeded is in the journal, and a step that has called the provider is not recorded as abandoned. */
function checkResolutions({ watch, resolutions }: WorkflowSimulation, known: KnownRun): void {
  const { id: run, journal } = known;
  for (const { run: resolved, id, attempt } of resolutions.values())
    if (resolved === known && !journal.resolved.has(`${id} attempt ${attempt}`))
      throw new PromiseBroken(`${run} ${id}: an operator resolved attempt ${attempt}, but the journal does not have the resolution`);
  for (const [id, { abandoned, attempts }] of journal.steps) {
    const called = watch.callsOf(known, id).includes(attempts);
    if (abandoned && called && /^(atMostOnce|reconcile)#/.test(id))
      throw new PromiseBroken(`${run} ${id}: recorded as abandoned, although it has called the provider`);
  }
}

/** A transactional step has exactly one row for each result in the journal. */
function checkRows({ rows }: WorkflowSimulation, known: KnownRun): void {
  const { id: run, entries, journal } = known;
  const own = entries.flatMap(({ by, events }, i) => (by === "operator" && i === 0 ? [] : decodeEvents(events)));
  for (const id of [...journal.steps.keys(), ...journal.retired.keys()]) {
    if (!id.startsWith("transactional#")) continue;
    const written = rows.filter((row) => row.run === known && row.id === id).map(({ attempt }) => attempt);
    const done = own.flatMap((event) => (event.type === "done" && event.id === id && event.how === undefined ? [event.attempt] : []));
    if (`${written}` !== `${done}`) throw new PromiseBroken(`${run} ${id}: rows of attempts [${written}], results of attempts [${done}]`);
  }
}

/**
 * The stream has, in order and once: of a completed step the chunks of its last attempt, of a step that a retry has forgotten nothing, and of the workflow code
 * one chunk for each write.
 */
function checkStream({ memory }: WorkflowSimulation, { id: run, entries, journal }: KnownRun): void {
  const kept = memory.chunks.read({
    run,
    stream: simulatedStream,
    from: 0,
    limit: Number.MAX_SAFE_INTEGER,
    bytesMax: Number.MAX_SAFE_INTEGER,
  });
  const chunks = kept.flatMap(({ data }) => (typeof data === "string" ? [decode(data) as SimulatedChunk] : []));
  const check = (by: string, attempt: number, count: number) => {
    const seen = chunks.filter((chunk) => chunk.by === by).map((chunk) => `${chunk.attempt}/${chunk.i}`);
    const due = Array.from({ length: count }, (_, i) => `${attempt}/${i}`);
    if (`${seen}` !== `${due}`) throw new PromiseBroken(`${run} ${by}: the stream has the chunks [${seen}], expected [${due}]`);
  };
  for (const id of journal.retired.keys()) if (id.startsWith("streaming#")) check(id, 0, 0);
  const counted = eventsThatCount(entries);
  for (const event of counted)
    if (event.type === "done" && event.id.startsWith("streaming#") && event.how === undefined && event.value !== "null")
      check(event.id, event.attempt, (decode(event.value) as { chunks: number }).chunks);
  const isWrite = ({ type }: Event) => type === "write";
  const chunksOfCode = chunks.filter(({ by }) => by === "run").map(({ i }) => i);
  const writes = counted.filter(isWrite).map((event) => Number(("id" in event ? event.id : "").split("#")[1]));
  if (`${chunksOfCode}` !== `${writes}`)
    throw new PromiseBroken(`${run}: the stream has the chunks [${chunksOfCode}] of the code, expected [${writes}]`);
}

/** Events of the run itself, and not of a run that it was forked from, without those that retries have forgotten. */
function eventsThatCount(entries: KnownRun["entries"]): Event[] {
  let noted: readonly Noted[] = [];
  for (const [entry, { events }] of entries.entries())
    for (const event of decodeEvents(events))
      noted = event.type === "retry" ? afterRetry(noted, event).kept : [...noted, { event, entry, consumedBefore: 0 }];
  const isCopied = ({ entry }: Noted) => entry === 0 && entries[0]?.by === "operator";
  return noted.filter((each) => !isCopied(each)).map(({ event }) => event);
}

/** In every execution, the code saw the outcomes that the journal has, in the same order, as far as that execution got. */
function checkScripts({ play, refusals }: WorkflowSimulation, run: KnownRun): void {
  const comparable = refusals.last(run).length > 0 ? entriesBeforeEnd(run) : run.entries.length;
  // Entries after the end were not written by the owner of their epoch, but by an operator or a late body.
  const byOwners = run.entries.filter(({ by }) => by === "owner");
  const scripts = play.scripts.filter(({ incarnation, execution: { id, epoch, host, departure } }) => {
    // Several callers may start the same run. A caller that got "exists" never owned it.
    return id === run.id && incarnation === run.incarnation && run.owners.get(epoch)?.owner === host.owner && departure?.why !== "exists";
  });
  scripts.forEach((script, i) => {
    const { epoch } = script.execution;
    if (epoch === 1 && scripts[0] !== script) return;
    const isLast = epoch === 1 || !scripts.slice(i + 1).some((later) => later.execution.epoch === epoch);
    const written = byOwners.findLast((entry) => entry.epoch === epoch)?.seq;
    compare(run, script, Math.min(comparable, (isLast ? written : undefined) ?? run.owners.get(epoch)?.entries ?? 0));
  });
}

function compare(run: KnownRun, script: Script, entries: number): void {
  const deliveries = run.journal.deliveriesAt(entries);
  const seenBefore = new Set<string>();
  const delivered = deliveries.filter(({ event, entry }) => {
    const { id } = outcomeOf(event);
    if (entry > entries || !script.awaited.has(id)) return false;
    // What was cancelled may still get its answer, which the code does not see.
    const isFirst = !seenBefore.has(id);
    seenBefore.add(id);
    return isFirst;
  });
  const ordered = afterTheirStarts(
    delivered.map(({ event }) => event),
    script,
  );
  for (const [i, event] of ordered.entries()) {
    const seen = script.outcomes[i];
    // The code had already ended: it did not see this event and the later ones.
    if (seen === undefined) break;
    const expected = outcomeOf(event);
    if (seen.id !== expected.id || seen.ok !== expected.ok || (expected.result !== undefined && seen.result !== expected.result))
      throw new PromiseBroken(
        `${run.id}: in epoch ${script.execution.epoch} the code saw ${JSON.stringify(seen)}, but the journal has ${JSON.stringify(event)}`,
      );
  }
  for (const [hook, payloads] of script.payloads) {
    const got = deliveries.flatMap(({ event, entry }) =>
      entry <= entries && event.type === "got" && event.id === hook ? [event.payload] : [],
    );
    const differs = payloads.slice(0, got.length).some((payload, i) => payload !== got[i]);
    if (differs) throw new PromiseBroken(`${run.id}: the code received ${payloads} from ${hook}, but the journal has ${got}`);
  }
}

/** The journal may have the end of a child before the answer to its start. The code awaits the end only after the start, so it sees the end second. */
function afterTheirStarts(events: readonly Delivery[], { awaited }: Script): Delivery[] {
  const early = new Map<string, Delivery>();
  const started = new Set<string>();
  return events.flatMap((event) => {
    const { type, id } = event;
    if (type === "started") started.add(id);
    if (type === "ended" && awaited.has(startOf(id)) && !started.has(id)) {
      early.set(id, event);
      return [];
    }
    const ended = type === "started" ? early.get(id) : undefined;
    return ended ? [event, ended] : [event];
  });
}

/** The outcome that the code sees for an event of the journal. The result is undefined where it is not compared. */
function outcomeOf(event: Delivery): Omit<SeenOutcome, "result"> & { readonly result?: string } {
  const { id } = event;
  switch (event.type) {
    case "done":
      return { id, ok: true, result: event.value };
    case "fail":
      return { id, ok: false, result: (decode(event.error) as { message: string }).message };
    case "cancelled":
      return { id, ok: false, result: (decode(event.error) as { message: string }).message };
    case "started":
      return { id: startOf(id), ok: event.found !== "refused", result: encode(event.found === "input") };
    case "ended":
      return event.status === "completed" ? { id, ok: true, result: event.output ?? "null" } : { id, ok: false };
    default:
      return { id, ok: true };
  }
}

/** A replay of the journal with the same code ends in the same way and runs no step. */
async function checkReplay({ play, memory }: WorkflowSimulation, { id }: KnownRun, run: RunRecord): Promise<void> {
  const replayed = await replayJournal({ workflow: play.workflow, run, journal: memory.journals.get(id) ?? [] });
  if (replayed.kind !== "ended" || !endsAs(replayed, run))
    throw new PromiseBroken(`${id}: ${run.status} with ${run.output}, but the replay gave ${JSON.stringify(replayed)}`);
}
