import { PromiseBroken } from "../observer.js";
import { refusalText } from "./refusals.js";

/** Fails the seed on an unhandled rejection, and on a warning about a run that could not be written although the store rejected nothing. */
export function startTroubleWatch(observer: { guard(check: () => void): void }): { stop(): void } {
  const onRejection = (reason: unknown) =>
    observer.guard(() => {
      throw new PromiseBroken(`unhandled rejection: ${reason instanceof Error ? reason.stack : String(reason)}`);
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
