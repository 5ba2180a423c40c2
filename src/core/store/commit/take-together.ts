import type { Member } from "./member.js";

/** What a flush takes, and what goes on waiting. */
export interface Taken<Op, Ans> {
  readonly taken: Member<Op, Ans>[];
  readonly rest: Member<Op, Ans>[];
}

export interface OnePerRow<Op> {
  /** Rows that are being flushed. */
  readonly busy: ReadonlySet<string>;
  readonly max: number;
  /** Whether the answer to the first operation on a row answers a later one, too. */
  readonly follows: (later: Op, first: Op) => boolean;
}

/** The oldest operation on each row, sorted by row, and the operations that can follow one. None overtakes another on its row. */
export function takeOnePerRow<Op, Ans>(queue: readonly Member<Op, Ans>[], { busy, max, follows }: OnePerRow<Op>): Taken<Op, Ans> {
  const [only] = queue;
  // One commit at rest: nothing to sort, and no other row to wait for.
  if (queue.length === 1 && only !== undefined && !only.alone && !busy.has(only.row)) return { taken: [only], rest: [] };
  const leaders = new Map<string, Member<Op, Ans>>();
  const passedOver = new Set(busy);
  const rest: Member<Op, Ans>[] = [];
  for (const member of queue) {
    const { row } = member;
    const leader = leaders.get(row);
    if (member.alone || passedOver.has(row) || (leader === undefined && leaders.size >= max)) {
      // What comes after it on its row must not overtake it.
      if (member.alone) passedOver.add(row);
      rest.push(member);
    } else if (leader === undefined) {
      leaders.set(row, member);
    } else if (follows(member.operation, leader.operation)) {
      leader.followers ??= [];
      leader.followers.push(member);
    } else {
      passedOver.add(row);
      rest.push(member);
    }
  }
  return { taken: [...leaders.values()].sort(byRow), rest };
}

export function byRow({ row: a }: { readonly row: string }, { row: b }: { readonly row: string }): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
