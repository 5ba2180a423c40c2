import { onTestFinished } from "vitest";

export interface CapturedWarning {
  readonly message: string;
  readonly code: unknown;
}

/** Collects the warnings of a code from now on, until the test ends. */
export function captureWarnings(code: string): CapturedWarning[] {
  const heard: CapturedWarning[] = [];
  const listen = (warning: Error) => {
    if ("code" in warning && warning.code === code) heard.push({ message: warning.message, code });
  };
  process.on("warning", listen);
  onTestFinished(() => void process.off("warning", listen));
  return heard;
}
