import { appends, type BrokenGuarantee, writes } from "./meddling.js";

/** Guarantees of chunks of streams. */
export const streams: readonly BrokenGuarantee[] = [
  [
    "lets a late body write into the streams of its successor",
    "write",
    writes((write, pass, memory) => pass({ ...write, epoch: memory.runs.get(write.id)?.epoch ?? write.epoch })),
  ],
  [
    "appends chunks that are sent again instead of ignoring them",
    "write",
    writes((write, pass, memory) => {
      const there = memory.chunks.read({ run: write.id, stream: "default", from: 0, limit: 1e6, bytesMax: 1e9 }).length;
      return pass({ ...write, chunks: write.chunks.map((chunk) => ({ ...chunk, n: chunk.n + 1e4 * there })) });
    }),
  ],
  [
    "lets a lower attempt replace the chunks of a higher one",
    "write",
    writes((write, pass) => pass({ ...write, chunks: write.chunks.map((chunk) => ({ ...chunk, attempt: 1 })) })),
  ],
  [
    "writes after the end of a stream",
    "write",
    (faithful, memory) => {
      memory.chunks.ended = () => false;
      return faithful;
    },
  ],
  [
    "keeps chunks of attempts that do not count",
    "write",
    appends((append, pass) => pass({ ...append, entry: { ...append.entry, voids: [] } })),
  ],
  [
    "writes the chunks of an entry that it refuses",
    "write",
    appends(async (append, pass, memory) => {
      for (const chunk of append.entry.chunks ?? []) memory.chunks.insert(append.id, memory.chunks.next(append.id, chunk.stream), chunk);
      return await pass(append);
    }),
  ],
  [
    "keeps the chunks of a run that was removed",
    "write",
    (faithful, memory) => {
      memory.chunks.delete = () => {};
      return faithful;
    },
  ],
  [
    "reads pages without their limit in bytes",
    "write",
    (faithful) => ({ ...faithful, chunks: (query) => faithful.chunks({ ...query, bytesMax: 1e9 }) }),
  ],
];
