/**
 * Node emits "beforeExit" when nothing keeps the process alive. Workers in the background release their runs then, so that other
 * workers need not wait for their leases.
 */
const releases = new Set<() => Promise<void>>();

export function onBeforeExit(release: () => Promise<void>): () => void {
  // One listener for all workers: Node warns of a leak when there are many.
  if (releases.size === 0) process.on("beforeExit", releaseAll);
  releases.add(release);
  return () => {
    releases.delete(release);
    if (releases.size === 0) process.off("beforeExit", releaseAll);
  };
}

function releaseAll(): void {
  // When the store does not answer, the lease runs out.
  for (const release of releases) void release().catch(() => {});
}
