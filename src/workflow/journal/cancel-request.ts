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

/** The keys of the mail that a run sends to its children, so that each gets it once. */
export function childMailKey(parent: string, payload: string | null): string {
  return `${payload === null ? "terminate" : "cancel"}\0${parent}`;
}
