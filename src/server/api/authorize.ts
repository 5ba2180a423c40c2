import { checkName } from "../../core/ledger/key.js";
import { checkText } from "../../core/runs/log.js";
import { isPlainObject } from "../../core/values/plain-object.js";
import { sleep } from "../../core/work/clock.js";
import { type ApiCaller, type ApiRole, apiRoles } from "./caller.js";
import type { ApiPolicy } from "./options.js";
import { ApiProblem } from "./problems.js";

/** Calls `authorize`. Whatever it does wrong, the request is refused. */
export async function callerOf(request: Request, { authorize, authorizeMsMax, store, onError }: ApiPolicy): Promise<ApiCaller> {
  const stop = new AbortController();
  const late = sleep(store.clock, authorizeMsMax, stop.signal).then(
    () => "late" as const,
    () => "late" as const,
  );
  let answer: unknown;
  try {
    // Without the body: a body that authorize has read could not be read by the route.
    const asked = new Request(request.url, { method: request.method, headers: request.headers, signal: request.signal });
    answer = await Promise.race([(async () => await authorize(asked))(), late]);
  } catch (error) {
    onError(error);
    throw new ApiProblem("INTERNAL");
  } finally {
    stop.abort();
  }
  if (answer === "late") throw new ApiProblem("AUTHORIZE_TIMEOUT");
  if (answer === null || answer === undefined) throw new ApiProblem("UNAUTHORIZED");
  const wrong = mistakeIn(answer);
  if (wrong === undefined) return answer as ApiCaller;
  onError(new TypeError(`authorize returned ${wrong}; it must return { actor, roles, scopes }, or null`));
  throw new ApiProblem("INTERNAL");
}

function mistakeIn(answer: unknown): string | undefined {
  if (!isPlainObject(answer)) return "something else than a plain object";
  const { actor, roles, scopes } = answer as Record<string, unknown>;
  try {
    checkText("actor", actor);
  } catch {
    return "no valid actor";
  }
  if (!Array.isArray(roles) || !roles.every((role) => apiRoles.includes(role as ApiRole))) return `roles other than ${apiRoles.join(", ")}`;
  if (scopes !== "*" && !(Array.isArray(scopes) && scopes.every(isScope))) return 'scopes that are neither "*" nor an array of scopes';
  return undefined;
}

function isScope(scope: unknown): boolean {
  try {
    checkName("scope", scope);
    return true;
  } catch {
    return false;
  }
}
