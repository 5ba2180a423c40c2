import { isRequest } from "../core/values/web-kinds.js";
import { currentAttempt } from "./current-attempt.js";
import type { Execute } from "./incoming-request.js";

interface Id {
  readonly scope: string;
  readonly key: string;
}

/** Requests that are being answered, with the names of their records. */
const answering = new WeakMap<object, Set<string>>();

/**
 * Answers a request, unless an outer mount of the middleware is already answering it under the same record: then this mount runs
 * the handler directly. Otherwise the inner mount would reject the request as a duplicate of the outer one.
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
    // Adapters expect that the handler does not run before `answer` has returned its promise.
    await undefined;
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

/** A caller may pass the same Fetch Request object twice, as two requests; only inside its handler is it the same request. */
function isInside(request: object, { scope, key }: Id): boolean {
  if (!isRequest(request)) return true;
  const attempt = currentAttempt();
  return attempt?.scope === scope && attempt.key === key;
}
