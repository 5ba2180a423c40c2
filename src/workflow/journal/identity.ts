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

/** For the n-th number that a run draws: the same at every replay, and evenly spread. */
export function fractionOf(run: string, n: number): number {
  const bits = Number.parseInt(hash("sha256", `${run}\0random\0${n}`).slice(0, 13), 16);
  return bits / 2 ** 52;
}

/** The n-th UUID of a run. Whoever knows the run's id can compute it: it is no secret. */
export function uuidOf(run: string, n: number): string {
  const hex = hash("sha256", `${run}\0uuid\0${n}`);
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 0x3) | 0x8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

export function fingerprint(text: string): string {
  return hash("sha256", text, "base64url").slice(0, 22);
}

function short(text: string): string {
  return hash("sha256", text, "base64url").slice(0, 27);
}
