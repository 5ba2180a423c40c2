const lengthMax = 60;

/** Returns the candidate that `text` is probably a misspelling of: at most two typing mistakes away, ignoring case. */
export function closest(text: string, candidates: readonly string[]): string | undefined {
  if (text.length > lengthMax) return undefined;
  const near = candidates
    .filter((candidate) => Math.abs(candidate.length - text.length) <= 2)
    .map((candidate) => ({ candidate, distance: distanceOf(text.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, distance }) => distance <= Math.min(2, Math.max(1, candidate.length / 3)))
    .sort((a, b) => a.distance - b.distance);
  return near[0]?.candidate;
}

/** Optimal string alignment distance, row by row: Levenshtein, except that two swapped neighbours count as one mistake. */
function distanceOf(a: string, b: string): number {
  let before: readonly number[] = [];
  let row: readonly number[] = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const isSame = a[i - 1] === b[j - 1];
      const isSwapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const replaced = (row[j - 1] ?? 0) + (isSame ? 0 : 1);
      const swapped = isSwapped ? (before[j - 2] ?? 0) + 1 : replaced;
      next.push(Math.min((next[j - 1] ?? 0) + 1, (row[j] ?? 0) + 1, replaced, swapped));
    }
    before = row;
    row = next;
  }
  return row[b.length] ?? 0;
}
