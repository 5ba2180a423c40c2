import type { Then } from "../../../core/runs/operation.js";
import { DivergenceError } from "../../define/errors.js";
import { inputDifference } from "../../journal/arguments/input-difference.js";
import type { Draft } from "../../journal/writer/draft.js";
import type { Divergence } from "../../replay/divergence.js";
import type { StepCall } from "../../steps/call/step-call.js";
import type { Host } from "../host.js";
import { releaseToOthers } from "./avoidance.js";
import { type ParkedRun, park } from "./park.js";

interface DivergedRun {
  readonly workflow: { readonly where: string };
  readonly host: Pick<Host, "rehearsal">;
}

/** The code makes other requests than the journal has. */
export function parkDiverged(run: ParkedRun & DivergedRun, divergence: Divergence): void {
  const { id, workflow, host } = run;
  const located = { where: workflow.where, ...divergence };
  if (host.rehearsal) return host.rehearsal.diverge(located);
  park(run, new DivergenceError(id, located).message);
}

interface ForeseenRun extends Pick<ParkedRun, "id" | "gone" | "state" | "avoid"> {
  readonly host: Pick<Host, "owner" | "warnOfDivergence">;
  readonly writer: { readonly busy: boolean; readonly isUnbegun: boolean };
  readonly draft: Pick<Draft, "discard">;
  readonly calls: { called(id: string): Pick<StepCall, "given"> | undefined };
  now(): number;
  commit(then: Then): void;
}

/** The replay check found that the code would diverge at its next replay. Recorded events have happened, and are kept. */
export function parkForeseen(run: ForeseenRun, divergence: Divergence): void {
  const { id, gone, state, writer, draft, avoid, host, calls } = run;
  // Otherwise the run is already leaving, or an entry is being written.
  if (gone || state !== "live" || writer.busy) return;
  const { input } = divergence;
  const was = input && calls.called(input.id)?.given.input();
  const difference = input && was ? inputDifference(was, input.asked) : undefined;
  const facts = { ...divergence, ...(difference ? { difference } : {}), foreseen: true, unbegun: writer.isUnbegun };
  const { message: trouble } = new DivergenceError(id, facts);
  // Nothing has happened yet: under corrected code the run starts from the beginning.
  if (writer.isUnbegun) draft.discard();
  run.commit(releaseToOthers({ avoid, owner: host.owner, now: run.now(), trouble }));
  host.warnOfDivergence(id, trouble);
}
