import { hasEnded, type RunRecord } from "../../../core/runs/run.js";
import { decode, encode } from "../../../core/values/codec.js";
import { decodeEvents } from "../../../workflow/journal/codec.js";
import type { Delivery } from "../../../workflow/journal/event.js";
import { stepIdOf } from "../../../workflow/journal/identity.js";
import { endsAs, replayJournal } from "../../replay-journal.js";
import { PromiseBroken } from "../observer.js";
import type { KnownRun } from "./run-observer.js";
import { type Script, startOf, type Told } from "./script.js";
import type { WorkflowSimulation } from "./simulation.js";
import { type SimulatedChunk, simulatedStream } from "./step-bodies.js";
import { checkRefusals, checkReplayBeforeEnd, entriesBeforeEnd } from "./verify-refused.js";

/** The storm is over and every run has ended: journals, executions and the other side must tell one story. */
export async function verify(simulation: WorkflowSimulation): Promise<void> {
  const { memory, observer, watch, fleet, refusals } = simulation;
  watch.replaying = true;
  for (const run of observer.runs()) {
    const record = memory.runs.get(run.id) as RunRecord;
    if (!hasEnded(record.status)) throw new PromiseBroken(`${run.id}: ${record.status} when everything was over`);
    checkCalls(simulation, run);
    checkResolutions(simulation, run);
    checkRows(simulation, run);
    checkStream(simulation, run);
    checkScripts(simulation, run);
    checkRefusals(simulation, run, record);
    // A run that was cancelled while other code had it ended without its own.
    if (fleet.isStrange(run.owners.get(run.entries.at(-1)?.epoch ?? 0)?.owner ?? "", run.id)) continue;
    if (refusals.last(run).length > 0) await checkReplayBeforeEnd(simulation, run, record);
    else await checkReplay(simulation, run, record);
  }
  if (observer.broken) throw observer.broken;
}

/** Raw calls per step: none without its entry, none twice, and never two where one was the most. */
function checkCalls({ effects }: WorkflowSimulation, { id: run, journal }: KnownRun): void {
  for (const [id, { attempts }] of journal.steps) {
    const calls = effects.calls(stepIdOf(run, id)).map(({ attempt }) => attempt ?? 0);
    if (new Set(calls).size !== calls.length) throw new PromiseBroken(`${run} ${id}: one attempt called twice: ${calls}`);
    if (calls.some((attempt) => attempt < 1 || attempt > attempts))
      throw new PromiseBroken(`${run} ${id}: called by an attempt without entry`);
    if (id.startsWith("atMostOnce#") && calls.length > 1)
      throw new PromiseBroken(`${run} ${id}: at most once, and called ${calls.length} times`);
  }
}

/** What a person was told to have resolved is resolved; what may have happened is not called abandoned. */
function checkResolutions({ effects, resolutions }: WorkflowSimulation, { id: run, journal }: KnownRun): void {
  for (const { runId, id, attempt } of resolutions.values())
    if (runId === run && !journal.steps.get(id)?.resolved.has(attempt))
      throw new PromiseBroken(`${run} ${id}: a person has resolved attempt ${attempt}, and the journal does not say so`);
  for (const [id, { abandoned, attempts }] of journal.steps) {
    const called = effects.calls(stepIdOf(run, id)).some(({ attempt }) => attempt === attempts);
    if (abandoned && called && /^(atMostOnce|reconcile)#/.test(id))
      throw new PromiseBroken(`${run} ${id}: abandoned, and it has called the other side`);
  }
}

/** A transactional step has its rows when, and only when, it has its result; and once. */
function checkRows({ rows }: WorkflowSimulation, { id: run, journal }: KnownRun): void {
  for (const id of journal.steps.keys()) {
    if (!id.startsWith("transactional#")) continue;
    const written = rows.filter(({ stepId }) => stepId === stepIdOf(run, id)).map(({ attempt }) => attempt);
    const done = journal.deliveries.flatMap(({ event }) => (event.type === "done" && event.id === id ? [event.attempt] : []));
    if (`${written}` !== `${done}`) throw new PromiseBroken(`${run} ${id}: rows of attempts [${written}], results of attempts [${done}]`);
  }
}

/** Of a step that is done: the chunks of the attempt that did it, once and in order. Of the code: one for each request. */
function checkStream({ memory }: WorkflowSimulation, { id: run, journal, entries }: KnownRun): void {
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
    if (`${seen}` !== `${due}`) throw new PromiseBroken(`${run} ${by}: chunks [${seen}] in its stream, and [${due}] were written`);
  };
  for (const { event } of journal.deliveries)
    if (event.type === "done" && event.id.startsWith("streaming#") && event.how === undefined && event.value !== "null")
      check(event.id, event.attempt, (decode(event.value) as { chunks: number }).chunks);
  check("run", 1, entries.flatMap(({ events }) => decodeEvents(events)).filter(({ type }) => type === "write").length);
}

/** What the code was told is what the journal says, in its order: in every execution as far as it had got. */
function checkScripts({ play, refusals }: WorkflowSimulation, run: KnownRun): void {
  const comparable = refusals.last(run).length > 0 ? entriesBeforeEnd(run) : run.entries.length;
  // An entry after the end is no entry of the owner that has its epoch: a person or a late body wrote it.
  const end = entriesBeforeEnd(run);
  const byOwners = end < 0 ? run.entries : run.entries.slice(0, end + 1);
  const scripts = play.scripts.filter(({ execution: { id, epoch, host, departure } }) => {
    // Many may try to start a run; those who come too late never had it.
    return id === run.id && run.owners.get(epoch)?.owner === host.owner && departure?.why !== "exists";
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
  const told = run.journal.deliveries.filter(({ event, entry }) => entry <= entries && script.listens.has(toldBy(event).id));
  const said = afterTheirStarts(
    told.map(({ event }) => event),
    script,
  );
  for (const [i, event] of said.entries()) {
    const heard = script.told[i];
    // What came after the code had ended was told to nobody.
    if (heard === undefined) break;
    const expected = toldBy(event);
    if (heard.id !== expected.id || heard.ok !== expected.ok || (expected.what !== undefined && heard.what !== expected.what))
      throw new PromiseBroken(
        `${run.id}: the code was told ${JSON.stringify(heard)} in epoch ${script.execution.epoch}, and its journal says ${JSON.stringify(event)}`,
      );
  }
  for (const [hook, payloads] of script.payloads) {
    const got = run.journal.deliveries.flatMap(({ event, entry }) =>
      entry <= entries && event.type === "got" && event.id === hook ? [event.payload] : [],
    );
    const differs = payloads.slice(0, got.length).some((payload, i) => payload !== got[i]);
    if (differs) throw new PromiseBroken(`${run.id}: ${hook} gave the code ${payloads}, and its journal says ${got}`);
  }
}

/** The end of a child may come before the answer to its start; the code asks for it afterwards, and has it at once. */
function afterTheirStarts(events: readonly Delivery[], { listens }: Script): Delivery[] {
  const early = new Map<string, Delivery>();
  const started = new Set<string>();
  return events.flatMap((event) => {
    const { type, id } = event;
    if (type === "started") started.add(id);
    if (type === "ended" && listens.has(startOf(id)) && !started.has(id)) {
      early.set(id, event);
      return [];
    }
    const ended = type === "started" ? early.get(id) : undefined;
    return ended ? [event, ended] : [event];
  });
}

function toldBy(event: Delivery): Omit<Told, "what"> & { readonly what?: string } {
  const { id } = event;
  switch (event.type) {
    case "done":
      return { id, ok: true, what: event.value };
    case "fail":
      return { id, ok: false, what: (decode(event.error) as { message: string }).message };
    case "started":
      return { id: startOf(id), ok: event.found !== "refused", what: encode(event.found === "input") };
    case "ended":
      return event.status === "completed" ? { id, ok: true, what: event.output ?? "null" } : { id, ok: false };
    default:
      return { id, ok: true };
  }
}

/** The same code on the same journal ends in the same way, and nothing is executed. */
async function checkReplay({ play, memory }: WorkflowSimulation, { id }: KnownRun, run: RunRecord): Promise<void> {
  const replayed = await replayJournal({ workflow: play.workflow, run, journal: memory.journals.get(id) ?? [] });
  if (replayed.kind !== "ended" || !endsAs(replayed, run))
    throw new PromiseBroken(`${id}: ${run.status} with ${run.output}, and its replay ${JSON.stringify(replayed)}`);
}
