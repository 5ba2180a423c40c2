import { isHeard, publish } from "../../../core/events/channels.js";
import type { WrongOptions } from "../../define/check-steps.js";
import type { RunWriter } from "../../journal/writer/run-writer.js";
import { encodedInTransaction } from "../encoded-result.js";
import { type BodyRun, StepBody } from "../step-body.js";
import type { StepCall } from "./step-call.js";
import { type JudgingRun, judge } from "./verdict.js";

/** The run in which attempts start. */
export interface AttemptRun extends BodyRun, JudgingRun {
  readonly host: BodyRun["host"] & JudgingRun["host"];
  readonly store: BodyRun["store"];
  readonly draft: { startAfterCommit(start: () => void): void };
  readonly writer: Pick<RunWriter, "within">;
  readonly parking: {
    /** A step cannot start under this code: the run is released when nothing is in progress. */
    refuseStep(why: string): void;
  };
}

/** Starts the first attempt. The request that was just recorded is its `step` event. */
export function beginCall(call: StepCall<AttemptRun>, at: number): void {
  if (call.wrong !== undefined) return refuseCall(call, call.wrong);
  start(call, 1, at);
}

export function refuseCall(call: StepCall<Pick<AttemptRun, "stepIdOf" | "parking">>, { message }: WrongOptions): void {
  call.isRefused = true;
  call.run.parking.refuseStep(message);
}

export function startNext(call: StepCall<AttemptRun>): void {
  const { run, id, given } = call;
  const at = run.now();
  const attempt = call.attempt + 1;
  run.record({ type: "step", id, at, attempt, fingerprint: given.print, partial: false });
  start(call, attempt, at);
}

/** The body starts only after the entry of the attempt is committed: the evidence comes before the effect. */
function start(call: StepCall<AttemptRun>, attempt: number, at: number): void {
  call.attempt = attempt;
  call.startedAt = at;
  call.firstStartedAt ??= at;
  call.dueAt = undefined;
  call.late = undefined;
  call.isWithheld = false;
  call.state = "starting";
  call.starts += 1;
  const { starts } = call;
  // A start that was withheld does not begin the body, even if the attempt is about to start again with a later entry.
  call.run.draft.startAfterCommit(() => starts === call.starts && execute(call));
}

function execute(call: StepCall<AttemptRun>): void {
  // The run ended while the entry was being written.
  if (call.state !== "starting") return;
  call.state = "running";
  call.hasBegun = true;
  call.bodyBeganAt = undefined;
  if (isHeard("step")) reportBegin(call);
  call.body = new StepBody(call.run, call.definition, call.id, call.attempt, call.firstStartedAt ?? call.startedAt);
  if (call.definition.tx) void executeInTransaction(call, call.body);
  else void call.body.run(call.given.input).then((outcome) => judge(call, outcome));
}

function reportBegin(call: StepCall<AttemptRun>): void {
  const { run, definition, stepId, attempt } = call;
  call.bodyBeganAt = run.now();
  const about = { store: run.store.name, run: run.id, workflow: run.workflow.name };
  publish("step", { type: "begin", ...about, step: definition.name, stepId, attempt });
}

/** Commits business rows and the step's result in one transaction of the store's database. */
async function executeInTransaction(call: StepCall<AttemptRun>, body: StepBody): Promise<void> {
  const { run, id, definition, given } = call;
  // The run may end before the transaction starts, or before the body returns: then nothing is written.
  const mustRun = () => {
    if (call.state !== "running") throw new Error("the run has ended");
  };
  const written = await run.writer.within(async (tx, journal) => {
    mustRun();
    const result = await body.runInTransaction(tx, given.input());
    const value = await encodedInTransaction(run, definition.name, result);
    mustRun();
    call.isWriting = true;
    await journal({ type: "done", id, at: run.now(), attempt: call.attempt, value });
  });
  call.isWriting = false;
  if (run.gone) return;
  if (!written.ok) return judge(call, written);
  call.body = undefined;
  call.state = "settled";
}
