/** What a person says about an attempt in doubt, as it is stored: a value, an error, or that the attempt had no effect. */
export type Resolution = { readonly done: string } | { readonly fail: string } | "notApplied";

/** The mail that carries it. */
export interface ResolutionMail {
  readonly attempt: number;
  readonly to: Resolution;
  /** Names the caller: of several callers the one whose mail was taken knows it by this. Older mail has none. */
  readonly by?: string;
  /** In the place of the others: the id of a journaled call that is accepted as the one that the code asks for. */
  readonly accept?: string;
}

export function resolutionIn(payload: string | null): ResolutionMail {
  return JSON.parse(payload ?? "{}") as ResolutionMail;
}

/** One mail per step and attempt: the store takes the first one and recognises all others as copies of it. */
export function resolutionKey(stepId: string, attempt: number): string {
  return `resolve\0${stepId}\0${attempt}`;
}
