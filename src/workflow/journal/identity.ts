import { hash } from "node:crypto";

/**
 * A step's identity: the run, the step function, and how many times it was called before in this run (or its key). Not
 * its position among other things, so that an unrelated hook, sleep or step cannot shift it. Fixed length, safe as a
 * header: hand it to providers as the idempotency key.
 */
export function stepIdOf(run: string, id: string): string {
  return `step_${short(`${run}\0${id}`)}`;
}

/** A child's id is its parent's and its place: started again, it is the same run. */
export function childIdOf(parent: string, id: string): string {
  return `run_${short(`${parent}\0${id}`)}`;
}

export function fingerprint(text: string): string {
  return hash("sha256", text, "base64url").slice(0, 22);
}

function short(text: string): string {
  return hash("sha256", text, "base64url").slice(0, 27);
}
