const lengthMax = 60;

/** The candidate that a text was probably meant to be: at most two letters away, or the same but for case. */
export function closest(text: string, candidates: readonly string[]): string | undefined {
  if (text.length > lengthMax) return undefined;
  const near = candidates
    .filter((candidate) => Math.abs(candidate.length - text.length) <= 2)
    .map((candidate) => ({ candidate, distance: distanceOf(text.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, distance }) => distance <= Math.min(2, Math.max(1, candidate.length / 3)))
    .sort((a, b) => a.distance - b.distance);
  return near[0]?.candidate;
}

/** Levenshtein's, row by row. */
function distanceOf(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (let j = 1; j <= b.length; j += 1)
      next.push(Math.min((next[j - 1] ?? 0) + 1, (row[j] ?? 0) + 1, (row[j - 1] ?? 0) + (letter === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length] ?? 0;
}
