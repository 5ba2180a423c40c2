/**
 * Appends `item` and returns the list: the same array, or a new one if `list` is empty. Pushing to an empty array reserves memory
 * for 17 elements, and most of these lists hold one.
 */
export function pushOrCreate<T>(list: T[], item: T): T[] {
  if (list.length === 0) return [item];
  list.push(item);
  return list;
}
