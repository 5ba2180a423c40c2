/** An operation that waits to be written, with the promise of its caller. */
export interface Member<Op, Ans> {
  readonly operation: Op;
  /** The record or run that the operation is about. */
  readonly row: string;
  /** Local time at which the operation was submitted. */
  readonly sentAt: number;
  readonly resolve: (answer: Ans) => void;
  readonly reject: (error: unknown) => void;
  /** Operations on the same row that are answered from the result of this one. */
  followers: Member<Op, Ans>[] | undefined;
  /** Number of lost races. */
  tries: number;
  /** Must be sent in its own flush. */
  alone: boolean;
}

/** Rejects an operation and its followers. */
export function fail<Op, Ans>(member: Member<Op, Ans>, error: unknown): void {
  for (const follower of member.followers ?? []) follower.reject(error);
  member.followers = undefined;
  member.reject(error);
}
