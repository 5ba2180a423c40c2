import { createHash } from "node:crypto";
import { prologue } from "./record.js";

export interface Script {
  readonly sha: string;
  readonly text: string;
  /** Items that one call may have: how long it keeps everybody else waiting. */
  readonly itemsMax: number;
}

export function script(text: string, itemsMax: number): Script {
  return { sha: createHash("sha1").update(text).digest("hex"), text, itemsMax };
}

/** A script that says the same about each of its keys; `p` is the place of the first argument of the next one. */
export function forEachKey(body: string, itemsMax: number): Script {
  return script(
    `${prologue}
local p = 2
local answers = {at}
for i = 1, tonumber(ARGV[1]) do
  local key = KEYS[i]
  ${body.trim()}
end
return answers`,
    itemsMax,
  );
}
