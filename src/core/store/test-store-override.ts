import type { Store } from "./store.js";

interface Override {
  readonly store: Store;
  /** The caller's place in the code, for messages. */
  readonly where: string;
}

let override: Override | undefined;

/**
 * Makes `store` the store of this process for a test: until `restore` is called, front ends that are given no store use it,
 * and the process starts no worker of its own. One override at a time: two tests side by side would get each other's runs.
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
