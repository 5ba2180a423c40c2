import type { Act, AppendLate, RunAnswer, Send, StartRun } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import { beforeEffect } from "../../core/work/until-answered.js";

export function sendMail(store: Store, mail: Omit<Send, "verb">): Promise<RunAnswer> {
  return sendSafely(store, { verb: "send", ...mail });
}

/** Retries for a bounded time. Retrying is safe: a repeated operation finds its own success. */
export function sendSafely(store: Store, operation: Send | StartRun | AppendLate | Act): Promise<RunAnswer> {
  return beforeEffect(store, () => store.commit({ run: operation }));
}
