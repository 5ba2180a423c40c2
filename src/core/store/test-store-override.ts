import type { Store } from "./store.js";

interface Override {
  readonly store: Store;
  /** File and line of the caller, for messages. */
  readonly where: string;
}

let override: Override | undefined;

/**
 * Makes `store` the default store of this process for a test. Until `restore` is called, front ends without an explicit store use
 * it, and the process does not start its default worker. Only one override at a time: two concurrent tests would get each other's
 * runs.
 */
export function overrideStore(wanted: Override): { readonly restore: () => void } | { readonly overriddenAt: string } {
  if (override !== undefined) return { overriddenAt: override.where };
  override = wanted;
  const restore = () => {
    if (override === wanted) override = undefined;
  };
  return { restore };
}

export function testStoreOverride(): Store | undefined {
  return override?.store;
}
