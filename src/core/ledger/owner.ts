import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { AttemptEntry } from "./record.js";

/** Names this process in owners: host, process id and a random part. So an operator can find the process that holds a key. */
const processName = `${hostname()}:${process.pid}:${randomBytes(6).toString("base64url")}`;
let begun = 0;

/** The suffix of an owner whose process handles nothing else for this many milliseconds. */
const aloneMark = / alone (\d+)$/;

/**
 * A new owner for every begin: two attempts of one process fence each other as two hosts do. `aloneMs`: how long this process
 * handles nothing else. It is part of the name so that the attempt log still shows it after the process died.
 */
export function newOwner(aloneMs?: number): string {
  begun += 1;
  return `${processName}#${begun}${aloneMs === undefined ? "" : ` alone ${aloneMs}`}`;
}

/** Whether an attempt's lease certainly ended while its process handled nothing else. */
export function wasAlone({ owner, startedAt, endedAt }: Pick<AttemptEntry, "owner" | "startedAt" | "endedAt">): boolean {
  const aloneMs = aloneMark.exec(owner)?.[1];
  return aloneMs !== undefined && endedAt !== null && endedAt - startedAt <= Number(aloneMs);
}
