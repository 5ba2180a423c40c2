/** Stored form of an operator's resolution of an attempt: a value, an error, or that the attempt had no effect. */
export type Resolution = { readonly done: string } | { readonly fail: string } | "notApplied";

/** Payload of the mail that carries a resolution or an acceptance. */
export interface ResolutionMail {
  readonly attempt: number;
  readonly to: Resolution;
  /** Identifies the caller, so that it can recognise its own mail among several. Mail of older versions has none. */
  readonly by?: string;
  /** How often the run was retried before. Absent: never. */
  readonly retries?: number;
  /** Instead of the other fields: the id of a journaled call that an operator accepts whatever its arguments are. */
  readonly accept?: string;
}

export function resolutionIn(payload: string | null): ResolutionMail {
  return JSON.parse(payload ?? "{}") as ResolutionMail;
}

/**
 * Deduplication key: the store accepts the first resolution of an attempt and treats all others as duplicates. A retry of the run can make the
 * outcome of an attempt unknown again that an operator had resolved as failed: then it is resolved anew.
 */
export function resolutionKey(stepId: string, attempt: number, retries: number): string {
  return `resolve\0${stepId}\0${attempt}${retries === 0 ? "" : `\0${retries}`}`;
}
