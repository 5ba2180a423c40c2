/** The list with one more. An empty array that is pushed to takes room for seventeen: most of these hold one. */
export function added<T>(list: T[], one: T): T[] {
  if (list.length === 0) return [one];
  list.push(one);
  return list;
}
