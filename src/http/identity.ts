import { GoneError, InvalidInputError, MismatchError } from "../core/errors/errors.js";
import type { Key } from "../core/ledger/key.js";
import { once } from "../core/ledger/once.js";
import type { Store } from "../core/store/store.js";
import { sha256 } from "../core/values/canonical.js";
import type { IncomingRequest } from "./incoming-request.js";
import type { Policy } from "./options.js";
import type { StoredResponse } from "./stored-response.js";

/** The name of a request's record. */
export interface Identity {
  readonly scope: string;
  /** For the fingerprint; undefined for an operation that several routes share. */
  readonly path: string | undefined;
}

/** The name by the path as it was sent, which 0.1.0 always used. */
export function identityAsSent<From>({ operation }: Policy<From>, { method, path }: IncomingRequest<From>, caller: string): Identity {
  if (operation === undefined) return identityAt(method, path, caller);
  return { scope: nameOf(`http-operation ${encodeURIComponent(operation)} ${caller}`), path: undefined };
}

/** Method and path contain no spaces, so two different triples (method, path, caller) never make the same scope. */
function identityAt(method: string, path: string, caller: string): Identity {
  return { scope: nameOf(`http ${method} ${path} ${caller}`), path };
}

/**
 * Which path names the record (docs/adr/0054):
 *
 * - spellings of one matched route share the route's own spelling. A record that 0.1.0 stored under the spelling of this
 *   request is still found first;
 * - where no route is matched, the path as sent stays the name, and a second record, the claim, keeps other spellings out.
 */
export function identify<From>(
  policy: Policy<From>,
  incoming: IncomingRequest<From>,
  caller: { readonly key: Key; readonly caller: string },
): Identity | Promise<Identity> {
  const sent = identityAsSent(policy, incoming, caller.caller);
  const { path, routePath = path, foldedPath = routePath } = incoming;
  if (policy.operation !== undefined || (routePath === path && foldedPath === path)) return sent;
  return identifySpelling(policy, incoming, { ...caller, sent });
}

/** The path was spelt in another way than the route. */
async function identifySpelling<From>(
  policy: Policy<From>,
  { method, path, routePath = path, foldedPath = routePath }: IncomingRequest<From>,
  { key, caller, sent }: { readonly key: Key; readonly caller: string; readonly sent: Identity },
): Promise<Identity> {
  if (routePath !== path && (await isKept(policy.store, sent.scope, key))) return sent;
  const identity = identityAt(method, routePath, caller);
  if (foldedPath !== routePath) await claim(policy, { scope: identityAt(method, foldedPath, caller).scope, key, identity });
  return identity;
}

interface Claim {
  readonly scope: string;
  readonly key: Key;
  readonly identity: Identity;
}

/**
 * Keeps other spellings of the path from executing under this key: the claim lies where the folded spelling has its own record,
 * so that of two spellings only one can begin. If the process dies after the claim, the same spelling goes on from there.
 */
async function claim<From>(
  { store, leaseMs, retentionMs, horizonMs, timeoutMs }: Policy<From>,
  { scope, key, identity }: Claim,
): Promise<void> {
  // Longer than the retention of the record it guards, which may be retried and then ends later.
  const claimMs = retentionMs === "forever" ? retentionMs : Math.min(2 * retentionMs + timeoutMs, claimMsMax);
  const fingerprint = sha256(`spelling ${identity.path}`);
  const value: StoredResponse = { status: 422, notKept: true };
  try {
    await once(store, { scope, key, fingerprint, leaseMs, retentionMs: claimMs, horizonMs }, async () => value);
  } catch (error) {
    // Records of 0.1.0 have no claim.
    const refused = error instanceof MismatchError || error instanceof GoneError;
    if (!refused || !(await isKept(store, identity.scope, key))) throw error;
  }
}

/** The longest duration that the store accepts. */
const claimMsMax = 100 * 365 * 86_400_000;

/** Whether a record exists that is not gone yet. */
async function isKept(store: Store, scope: string, key: Key): Promise<boolean> {
  const reading = await store.read({ scope, key });
  return reading !== undefined && (reading.record.goneAt === null || reading.now < reading.record.goneAt);
}

export function callerOf<From>({ scope }: Policy<From>, { from }: IncomingRequest<From>): string | Promise<string> {
  return typeof scope === "string" ? scope : namedBy(scope, from);
}

async function namedBy<From>(scope: (from: From) => string | Promise<string>, from: From): Promise<string> {
  const caller: unknown = await scope(from);
  if (typeof caller === "string") return caller;
  throw new InvalidInputError("scope", `must be a string, not ${String(caller)}; reject unauthenticated requests before this middleware`);
}

function nameOf(text: string): string {
  return /^[\x20-\x7e]{1,512}$/.test(text) ? text : `http sha256:${sha256(text)}`;
}
