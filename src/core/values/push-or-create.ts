/**
 * Returns `list` with `item` at its end: the same array, or a new one where `list` is empty. An empty array that is pushed
 * to reserves memory for 17 elements, and most of these lists hold one.
 */
export function pushOrCreate<T>(list: T[], item: T): T[] {
  if (list.length === 0) return [item];
  list.push(item);
  return list;
}
