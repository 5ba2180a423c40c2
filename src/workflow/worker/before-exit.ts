/**
 * Node emits "beforeExit" when nothing keeps the process alive. Workers in the background hand their runs back then, so that other
 * workers need not wait for their leases.
 */
const handBacks = new Set<() => Promise<void>>();

export function onBeforeExit(handBack: () => Promise<void>): () => void {
  // One listener for all workers: Node warns of a leak when there are many.
  if (handBacks.size === 0) process.on("beforeExit", handBackAll);
  handBacks.add(handBack);
  return () => {
    handBacks.delete(handBack);
    if (handBacks.size === 0) process.off("beforeExit", handBackAll);
  };
}

function handBackAll(): void {
  // When the store does not answer, the lease runs out.
  for (const handBack of handBacks) void handBack().catch(() => {});
}
