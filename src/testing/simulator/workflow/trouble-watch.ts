import { PromiseBroken } from "../observer.js";
import { refusalText } from "./refusals.js";

/** Rejections that nobody handles, and runs that could not be written although the store refused nothing, break a seed, too. */
export function startTroubleWatch(observer: { guard(check: () => void): void }): { stop(): void } {
  const onRejection = (reason: unknown) =>
    observer.guard(() => {
      throw new PromiseBroken(`nobody handled a rejection: ${reason instanceof Error ? reason.stack : String(reason)}`);
    });
  const onWarning = (warning: Error & { readonly code?: string }) =>
    observer.guard(() => {
      if (warning.code === "ONCEFLOW_RUN_NOT_WRITTEN" && !warning.message.includes(refusalText)) throw new PromiseBroken(warning.message);
    });
  process.on("unhandledRejection", onRejection);
  process.on("warning", onWarning);
  return {
    stop() {
      process.off("unhandledRejection", onRejection);
      process.off("warning", onWarning);
    },
  };
}
