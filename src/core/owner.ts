import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

/** Says where to look for whoever holds a key: host, process, and a part that no other process has. */
const processName = `${hostname()}:${process.pid}:${randomBytes(6).toString("base64url")}`;
let begun = 0;

/** The end of an owner's name whose attempt had its process to itself. */
const aloneMark = " alone";

/**
 * A new owner for every begin: two attempts of one process are as foreign to each other as two hosts. `alone`: this process
 * handles nothing else meanwhile. That is part of the name, so that the log of attempts still says so when the process died.
 */
export function newOwner(alone = false): string {
  begun += 1;
  return `${processName}#${begun}${alone ? aloneMark : ""}`;
}

export function wasAlone(owner: string): boolean {
  return owner.endsWith(aloneMark);
}
