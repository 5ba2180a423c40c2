/**
 * Node emits "beforeExit" when nothing keeps the process alive. Background workers release their runs then, so that other
 * workers need not wait until the leases expire.
 */
const releases = new Set<() => Promise<void>>();

export function onBeforeExit(release: () => Promise<void>): () => void {
  // One listener for all workers: Node warns about a leak if there are many.
  if (releases.size === 0) process.on("beforeExit", releaseAll);
  releases.add(release);
  return () => {
    releases.delete(release);
    if (releases.size === 0) process.off("beforeExit", releaseAll);
  };
}

function releaseAll(): void {
  // If the store does not answer, the leases expire.
  for (const release of releases) void release().catch(() => {});
}
