import { beforeEach, vi } from "vitest";

/** For simulations, whose stores fail all the time: the warning that something is not saved yet would be printed thousands of times. */
beforeEach(() => {
  const emit = process.emitWarning.bind(process) as (...given: unknown[]) => void;
  const spy = vi.spyOn(process, "emitWarning").mockImplementation(((...given: unknown[]) => {
    const [, options] = given as [unknown, { readonly code?: string } | undefined];
    if (options?.code !== "ONCEFLOW_NOT_SAVED") emit(...given);
  }) as typeof process.emitWarning);
  return () => spy.mockRestore();
});
