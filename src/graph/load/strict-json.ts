export interface JsonProblem {
  readonly offset: number;
  /** The engine's message without its quote of the text. */
  readonly message: string;
}

/** Where and why a text is not JSON; undefined if it is. */
export function jsonProblem(text: string): JsonProblem | undefined {
  const complaint = complaintOf(text);
  if (complaint === undefined) return undefined;
  const position = / at position (\d+)/.exec(complaint)?.[1];
  const offset = position === undefined ? lengthOfSame(text) - 1 : Number(position);
  return { offset: Math.max(offset, 0), message: complaint.replace(/, (?:\.\.\.)?".*$| in JSON at .*$/s, "") };
}

function complaintOf(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/**
 * The engine does not report the position of an unexpected token. It reports the same error for every prefix of the text that
 * contains the token, and "incomplete" for a shorter one. So the shortest prefix with that error ends with the token.
 */
function lengthOfSame(text: string): number {
  let [incomplete, same] = [0, text.length];
  while (incomplete + 1 < same) {
    const middle = Math.floor((incomplete + same) / 2);
    if (complaintOf(text.slice(0, middle))?.startsWith("Unexpected token")) same = middle;
    else incomplete = middle;
  }
  return same;
}
