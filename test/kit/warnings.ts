import { onTestFinished } from "vitest";

export interface SeenWarning {
  readonly code: string | undefined;
  readonly message: string;
}

/** The warnings of this process from now until the test ends. Tests run side by side, so filter them by a name of your own. */
export function seenWarnings(): readonly SeenWarning[] {
  const seen: SeenWarning[] = [];
  const listen = (warning: Error & { readonly code?: string }) => void seen.push({ code: warning.code, message: warning.message });
  process.on("warning", listen);
  onTestFinished(() => void process.off("warning", listen));
  return seen;
}
