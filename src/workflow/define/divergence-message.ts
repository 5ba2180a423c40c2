/** How the code of a run differs from its journal. */
export interface DivergenceFacts {
  readonly expected: string;
  readonly found: string;
  readonly where?: string;
  readonly input?: { readonly stepId: string };
  readonly difference?: string;
  /** The text in `found` already says what to do. */
  readonly isAdvised?: boolean;
  /** Found by the replay check. */
  readonly foreseen?: boolean;
  /** The journal of the run has no entries yet. */
  readonly unbegun?: boolean;
}

export function divergenceMessage(
  runId: string,
  { expected, found, where, input, difference, foreseen, isAdvised, unbegun = false }: DivergenceFacts,
): string {
  const how = foreseen ? "would diverge from its journal at its next replay" : "has diverged from its journal";
  return (
    `run "${runId}" ${how}. Expected: ${expected}. Found: ${found}, at ${where}.${difference ? ` Of the step, ${difference}.` : ""} ` +
    (isAdvised ? "" : `${input ? waysOutOfInput(unbegun ? undefined : { runId, stepId: input.stepId }) : waysOut} `) +
    (unbegun
      ? 'The run is set aside (status "diverged"). None of its steps was executed, and it starts from the beginning under corrected code.'
      : 'The run is set aside (status "diverged") and continues under code that matches its journal.')
  );
}

const waysOut =
  "A workflow may wait only for steps, sleeps, hooks and child runs: move timers, crypto.subtle, streams and other I/O into a step. " +
  "Code that depends on the time, on random numbers or on the state of the process must get them from now(), random() and uuid() of onceflow/workflow, or from a step.";

/** `call`: the journaled call, if it can be accepted. */
function waysOutOfInput(call: { readonly runId: string; readonly stepId: string } | undefined): string {
  const accept = `If the journaled call is the call that the code makes, and its outcome is journaled, accept it: acceptCall(${JSON.stringify(call)}) of onceflow/workflow/api.`;
  return (
    "Arguments must be the same at every replay: take times, random numbers and ids from now(), random() and uuid() of onceflow/workflow, or from a step." +
    (call === undefined ? "" : ` ${accept}`)
  );
}
