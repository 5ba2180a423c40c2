/** Runs it when there is room: no more than so many at once, however many flushes there are. */
export type InTurn = <T>(work: () => Promise<T>) => Promise<T>;

export function atMost(max: number): InTurn {
  let free = max;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (free > 0) free -= 1;
    else await new Promise<void>((turn) => waiting.push(turn));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  };
}

/**
 * Does it for each, and waits for all of them, also when one fails: nothing is under way any more when somebody hears of
 * it. The first failure is thrown then.
 */
export async function sideBySide<T, R>(all: readonly T[], inTurn: InTurn, work: (one: T) => Promise<R>): Promise<R[]> {
  const settled = await Promise.allSettled(all.map((one) => inTurn(() => work(one))));
  return settled.map((result) => {
    if (result.status === "rejected") throw result.reason;
    return result.value;
  });
}
