import type { OutgoingMail } from "../../../core/runs/operation.js";

/** How long the code of a cancelled run may clean up, unless the caller says otherwise: longer than the default retries of a step. */
export const cleanupMsDefault = 900_000;

/** A request to cancel a run, as mail contains it. */
export interface CancelRequest {
  readonly reason: string | undefined;
  /** How long the code may clean up, counted from the delivery to the code. */
  readonly cleanupMs: number;
}

/** The payload of the mail. Mail without a payload ends the run at once. */
export function cancelPayload({ reason, cleanupMs }: CancelRequest): string {
  return JSON.stringify({ reason, cleanupMs });
}

export function cancelRequestIn(payload: string): CancelRequest {
  const { reason, cleanupMs = cleanupMsDefault } = JSON.parse(payload) as Partial<CancelRequest>;
  return { reason, cleanupMs };
}

/**
 * The mail by which a run cancels a child: each child gets it once. If no worker executes the child in time, any worker ends it, also one that does not have its
 * workflow.
 */
export function mailToChild(parent: string, child: string, payload: string | null): OutgoingMail {
  const key = `${payload === null ? "terminate" : "cancel"}\0${parent}`;
  const stopAfterMs = payload === null ? 0 : cancelRequestIn(payload).cleanupMs;
  return { to: { run: child }, kind: "cancel", about: null, payload, key, stopAfterMs };
}
