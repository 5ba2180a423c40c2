import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

/** Says where to look for whoever holds a key: host, process, and a part that no other process has. */
const processName = `${hostname()}:${process.pid}:${randomBytes(6).toString("base64url")}`;
let begun = 0;

/** A new owner for every begin: two attempts of one process are as foreign to each other as two hosts. */
export function newOwner(): string {
  begun += 1;
  return `${processName}#${begun}`;
}
