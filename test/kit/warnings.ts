import { beforeEach, onTestFinished, vi } from "vitest";

export interface Warning {
  readonly code: string | undefined;
  readonly message: string;
}

/**
 * Collects the warnings of this process from now until the test ends: all of them, or those of one code. Tests run
 * concurrently, so look for a name that only your test uses. A concurrent test passes its own `onEnd`.
 */
export function captureWarnings(code?: string, onEnd: (end: () => void) => void = onTestFinished): readonly Warning[] {
  const captured: Warning[] = [];
  const listen = (warning: Error & { readonly code?: string }) => {
    if (code === undefined || warning.code === code) captured.push({ code: warning.code, message: warning.message });
  };
  process.on("warning", listen);
  onEnd(() => void process.off("warning", listen));
  return captured;
}

/** Drops the warnings of one code in all tests of a file: simulated stores fail all the time, and each failure would be printed. */
export function muteWarnings(code: string): void {
  beforeEach(() => {
    const emit = process.emitWarning.bind(process) as (...given: unknown[]) => void;
    const spy = vi.spyOn(process, "emitWarning").mockImplementation(((...given: unknown[]) => {
      const [, options] = given as [unknown, { readonly code?: string } | undefined];
      if (options?.code !== code) emit(...given);
    }) as typeof process.emitWarning);
    return () => spy.mockRestore();
  });
}
