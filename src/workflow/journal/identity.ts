import { hash } from "node:crypto";

/**
 * The stepId: a hash of the run and the call id, which has the name of the step and the number of its earlier calls in this
 * run, or its key. It does not depend on other requests, so an added hook, sleep or step does not change it. It has a fixed
 * length and is safe in a header: providers get it as the idempotency key.
 */
export function stepIdOf(run: string, id: string): string {
  return `step_${short(`${run}\0${id}`)}`;
}

/**
 * The id of a request that retries have renewed: the request had begun, and is made anew under another id, because under the old one a provider would replay its
 * old answer, and a child run would be found again.
 */
export function renewedId(id: string, renewals: ReadonlyMap<string, number>): string {
  const n = renewals.get(id);
  return n === undefined ? id : `${id}~retry${n}`;
}

/** The id of a child run, derived from its parent and the request: starting it again gives the same run. */
export function childIdOf(parent: string, id: string): string {
  return `run_${short(`${parent}\0${id}`)}`;
}

export function fingerprint(text: string): string {
  return hash("sha256", text, "base64url").slice(0, 22);
}

function short(text: string): string {
  return hash("sha256", text, "base64url").slice(0, 27);
}
