import { isRequest } from "../core/values/web-kinds.js";
import type { Execute } from "./asked.js";
import { currentAttempt } from "./current-attempt.js";

interface Id {
  readonly scope: string;
  readonly key: string;
}

/** Requests that are being answered, and the records under which. */
const answering = new WeakMap<object, Set<string>>();

/**
 * Answers a request, unless an outer mount of the middleware is answering the same request under the same record: then this one
 * passes it on. Otherwise the outer mount would be the duplicate in flight that the inner one refuses.
 */
export async function mounted<Answer>(
  from: unknown,
  id: Id,
  execute: Execute,
  answer: () => Promise<Answer>,
): Promise<Answer | "captured"> {
  const request = from as object;
  const records = answering.get(request) ?? new Set();
  const record = `${id.scope}\n${id.key}`;
  if (records.has(record) && isInside(request, id)) {
    await execute();
    return "captured";
  }
  answering.set(request, records.add(record));
  try {
    return await answer();
  } finally {
    records.delete(record);
  }
}

/** A Fetch request may be handed in twice by its owner: only the one that the handler hands on is the same request. */
function isInside(request: object, { scope, key }: Id): boolean {
  if (!isRequest(request)) return true;
  const attempt = currentAttempt();
  return attempt?.scope === scope && attempt.key === key;
}
