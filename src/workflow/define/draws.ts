import { hash } from "node:crypto";

/** The n-th random number of a run, from 0 to 1: the same at every replay, and uniformly distributed. */
export function fractionOf(run: string, n: number): number {
  const bits = Number.parseInt(hash("sha256", `${run}\0random\0${n}`).slice(0, 13), 16);
  return bits / 2 ** 52;
}

/** The n-th UUID of a run. It is not a secret: it can be computed from the run's id. */
export function uuidOf(run: string, n: number): string {
  const hex = hash("sha256", `${run}\0uuid\0${n}`);
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 0x3) | 0x8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
