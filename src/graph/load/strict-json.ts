export interface JsonProblem {
  readonly offset: number;
  /** What the engine says, without the piece of the text that it quotes. */
  readonly message: string;
}

/** Where and why a text is no JSON; undefined: it is. */
export function jsonProblem(text: string): JsonProblem | undefined {
  const said = complaintOf(text);
  if (said === undefined) return undefined;
  const position = / at position (\d+)/.exec(said)?.[1];
  const offset = position === undefined ? lengthOfSame(text) - 1 : Number(position);
  return { offset: Math.max(offset, 0), message: said.replace(/, (?:\.\.\.)?".*$| in JSON at .*$/s, "") };
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
 * The engine does not say where a token is that it does not expect. But whatever begins like this text, and holds that
 * token, it says the same of; what ends before it is only incomplete. So the shortest such beginning ends with the token.
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
