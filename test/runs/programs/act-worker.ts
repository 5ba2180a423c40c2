import { open } from "onceflow";
import type { Act } from "../../../src/core/runs/operation.js";
import { dieAtDurable } from "../../programs/die-at-durable.js";

/** Does one action of an operator and dies by SIGKILL, before or after its durable write. */
export interface ActDoom {
  readonly url: string;
  readonly act: Act;
  readonly point: "before" | "after";
}

const { url, act, point } = JSON.parse(process.argv[2] ?? "") as ActDoom;

process.on("disconnect", () => process.exit());
const dooming = await dieAtDurable(url, point);
const store = await open(url.startsWith("sqlite:") ? `${url}?driver=@photostructure/sqlite` : url, { purgeEveryMs: 0, stallMsMax: 0 });
dooming.arm();
await store.commit({ run: act });
console.error("the process did not die at its crash point");
process.exit();
