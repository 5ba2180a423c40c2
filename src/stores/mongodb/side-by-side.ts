/**
 * Does it for each, so many at once, and waits for all of them, also when one fails: nothing is under way any more when
 * somebody hears of it. The first failure is thrown then.
 */
export async function sideBySide<T, R>(all: readonly T[], atOnceMax: number, work: (one: T) => Promise<R>): Promise<R[]> {
  const results = new Array<R>(all.length);
  const failures: unknown[] = [];
  let next = 0;
  const worker = async () => {
    for (let i = next++; i < all.length; i = next++) {
      try {
        results[i] = await work(all[i] as T);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnceMax, all.length) }, worker));
  if (failures.length > 0) throw failures[0];
  return results;
}
