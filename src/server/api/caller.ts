import { checkName } from "../../core/ledger/key.js";
import { ApiProblem } from "./problems.js";

export const apiRoles = ["view", "work", "operate", "values"] as const;

/**
 * What a sender may do. `view`: list and show. `work`: begin, renew and settle keys, start runs, list hooks and deliver to them, trigger flows. `operate`: act on runs, keys, dead letters
 * and flows. `values`: also see inputs, results, payloads and the messages of errors. No role includes another one.
 */
export type ApiRole = (typeof apiRoles)[number];

/** The sender of a request, as `authorize` returns it. */
export interface ApiCaller {
  /** Name of the sender in the operator log. */
  readonly actor: string;
  readonly roles: readonly ApiRole[];
  /** The scopes (tenants) that the sender may see and act on; "*": all scopes. */
  readonly scopes: readonly string[] | "*";
}

/**
 * Says who sends a request, and what the sender may do; null or undefined: an unknown sender. It gets the request without its body.
 *
 * @example
 * const authorize: Authorize = async (request) => {
 *   const user = await sessionOf(request);
 *   return user ? { actor: user.name, roles: ["view", "operate"], scopes: [user.tenant] } : null;
 * };
 */
export type Authorize = (request: Request) => Promise<ApiCaller | null | undefined> | ApiCaller | null | undefined;

export function hasRole({ roles }: ApiCaller, role: ApiRole): boolean {
  return roles.includes(role);
}

export function mayUse({ scopes }: ApiCaller, scope: string): boolean {
  return scopes === "*" || scopes.includes(scope);
}

/** The scope of one key, or of a new run. Default: the caller's only scope, or "" for a caller with all scopes. */
export function scopeFor(caller: ApiCaller, scope: string | undefined): string {
  return listScope(caller, scope) ?? "";
}

/** The scope of a list; undefined: all scopes. A caller with several scopes must name one. */
export function listScope(caller: ApiCaller, scope: string | undefined): string | undefined {
  const { scopes } = caller;
  if (scope !== undefined) {
    checkName("scope", scope);
    // The caller knows its scopes, so this answer says nothing about what exists.
    if (!mayUse(caller, scope)) throw new ApiProblem("SCOPE_REFUSED");
    return scope;
  }
  if (scopes === "*") return undefined;
  const [only] = scopes;
  if (only === undefined) throw new ApiProblem("SCOPE_REFUSED", "you have no scope");
  if (scopes.length > 1) throw new ApiProblem("SCOPE_MISSING");
  return only;
}

/** For what belongs to no scope: workers, packets and flows. */
export function requireAllScopes({ scopes }: ApiCaller): void {
  if (scopes !== "*") throw new ApiProblem("SCOPE_REFUSED", "this belongs to no scope; it needs a caller with all scopes");
}
