/** An operation that waits to be written, and its caller. */
export interface Member<Op, Ans> {
  readonly operation: Op;
  /** The record or run that the operation is about. */
  readonly row: string;
  /** Local time at which the operation was handed in. */
  readonly sentAt: number;
  readonly resolve: (answer: Ans) => void;
  readonly reject: (error: unknown) => void;
  /** Operations on the same row that are answered from what this one finds. */
  followers: Member<Op, Ans>[] | undefined;
  /** How many races it has lost. */
  tries: number;
  /** It shares no flush. */
  alone: boolean;
}

export function fail<Op, Ans>(member: Member<Op, Ans>, error: unknown): void {
  for (const follower of member.followers ?? []) follower.reject(error);
  member.followers = undefined;
  member.reject(error);
}
