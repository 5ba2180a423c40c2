import { createHash } from "node:crypto";
import { prologue } from "./record.js";

export interface Script {
  readonly sha: string;
  readonly text: string;
  /** Maximum number of items of one call: other clients wait while it runs. */
  readonly itemsMax: number;
}

export function script(text: string, itemsMax: number): Script {
  return { sha: createHash("sha1").update(text).digest("hex"), text, itemsMax };
}

/** A script that runs `body` for each key. In `body`, `p` is the index in ARGV of the item's first argument; `body` must advance it. */
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
