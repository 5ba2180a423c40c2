import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { AttemptEntry } from "./record.js";

/** Says where to look for whoever holds a key: host, process, and a part that no other process has. */
const processName = `${hostname()}:${process.pid}:${randomBytes(6).toString("base64url")}`;
let begun = 0;

/** The end of an owner's name whose process handles nothing else for so many ms. */
const aloneMark = / alone (\d+)$/;

/**
 * A new owner for every begin: two attempts of one process are as foreign to each other as two hosts. `aloneMs`: for so long
 * this process handles nothing else. That is part of the name, so that the log of attempts still says it when the process died.
 */
export function newOwner(aloneMs?: number): string {
  begun += 1;
  return `${processName}#${begun}${aloneMs === undefined ? "" : ` alone ${aloneMs}`}`;
}

/** Whether an attempt that fell silent surely did so while its process handled nothing else. */
export function wasAlone({ owner, startedAt, endedAt }: Pick<AttemptEntry, "owner" | "startedAt" | "endedAt">): boolean {
  const aloneMs = aloneMark.exec(owner)?.[1];
  return aloneMs !== undefined && endedAt !== null && endedAt - startedAt <= Number(aloneMs);
}
