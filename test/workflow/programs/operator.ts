import { open, type Store } from "onceflow";
import { retryRun } from "onceflow/workflow/api";
import type { RunOperation } from "../../../src/core/runs/operation.js";
import { dieAtDurable } from "../../programs/die-at-durable.js";

/** Retries a run and dies by SIGKILL, before or after the durable write of the nth action. */
export interface RetryDoom {
  readonly url: string;
  readonly run: string;
  readonly actionId: string;
  readonly nth: number;
  readonly point: "before" | "after";
}

const { url, run, actionId, nth, point } = JSON.parse(process.argv[2] ?? "") as RetryDoom;

process.on("disconnect", () => process.exit());
const dooming = await dieAtDurable(url, point);
const store = await open(url.startsWith("sqlite:") ? `${url}?driver=@photostructure/sqlite` : url, { purgeEveryMs: 0, stallMsMax: 0 });
let acts = 0;
const commit = async (batch: { readonly run?: RunOperation }) => {
  if (batch.run?.verb === "act") acts += 1;
  if (acts === nth) dooming.arm();
  return await store.commit(batch as never);
};
await retryRun(run, { store: Object.create(store, { commit: { value: commit } }) as Store, actionId });
console.error("the process did not die at its crash point");
process.exit();
