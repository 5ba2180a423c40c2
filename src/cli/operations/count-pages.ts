import type { RunCounts, RunRows } from "./operations.js";

const countMax = 10_000;

/** Counts by status, page by page, up to 10,000 runs in all. */
export async function countPages(
  list: (page: { readonly limit: number; readonly cursor?: string }) => Promise<RunRows>,
): Promise<RunCounts> {
  const counts = new Map<string, number>();
  let cursor: string | undefined;
  let total = 0;
  do {
    const page = await list({ limit: 1000, ...(cursor === undefined ? {} : { cursor }) });
    for (const { status } of page.items) counts.set(status, (counts.get(status) ?? 0) + 1);
    total += page.items.length;
    cursor = page.cursor;
  } while (cursor !== undefined && total < countMax);
  return Object.fromEntries([...counts].map(([status, count]) => [status, { count, capped: cursor !== undefined }]));
}

/** Without the statuses that no run has. */
export function withoutZeros(counts: RunCounts): RunCounts {
  return Object.fromEntries(Object.entries(counts).filter(([, { count }]) => count > 0));
}
