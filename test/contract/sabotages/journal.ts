import { acts, appends, type BrokenGuarantee, edit, kindOf, lates, lengthOf, meddling, writes } from "./meddling.js";

/** Guarantees of entries of the journal. */
export const journal: readonly BrokenGuarantee[] = [
  [
    "lets the last creator win",
    "start",
    meddling(async (operation, pass, memory) => {
      if (operation.verb === "start") memory.runs.delete(operation.id);
      return await pass(operation);
    }),
  ],
  [
    "accepts an entry that leaves a gap",
    "append",
    appends((append, pass, memory) => pass({ ...append, seq: Math.min(append.seq, lengthOf(memory, append.id) + 1) })),
  ],
  [
    "writes the same entry twice when its reply was lost",
    "append",
    appends((append, pass, memory) => {
      const again = memory.journals.get(append.id)?.[append.seq - 1]?.epoch === append.epoch && append.entry.events !== null;
      return pass(again ? { ...append, seq: lengthOf(memory, append.id) + 1 } : append);
    }),
  ],
  [
    "forgets mail when a run is released",
    "append",
    appends(async (append, pass, memory) => {
      const answer = await pass(append);
      const { then } = append.entry;
      if (then.kind === "release" && kindOf(answer) === "appended") edit(memory, append.id, () => ({ wakeAt: then.wakeAt }));
      return answer;
    }),
  ],
  [
    "lets a late owner write after its successor",
    "fence",
    appends((append, pass, memory) => {
      const there = memory.journals.get(append.id)?.[append.seq - 1];
      return pass(there && there.epoch !== append.epoch ? { ...append, seq: lengthOf(memory, append.id) + 1 } : append);
    }),
  ],
  [
    "accepts the entry of an owner of an earlier run with the same id",
    "fence",
    appends((append, pass, memory) => pass({ ...append, creator: memory.runs.get(append.id)?.creator ?? "" })),
  ],
  [
    "accepts chunks of an owner of an earlier run with the same id",
    "fence",
    writes((write, pass, memory) => pass({ ...write, creator: memory.runs.get(write.id)?.creator ?? "" })),
  ],
  [
    "accepts a late entry of an owner of an earlier run with the same id",
    "fence",
    lates((late, pass, memory) => pass({ ...late, creator: memory.runs.get(late.id)?.creator ?? "" })),
  ],
  [
    "does an action that was decided on an earlier run with the same id",
    "fence",
    acts((act, pass) => {
      const { creator: _, ...expect } = act.expect;
      return pass({ ...act, expect });
    }),
  ],
  [
    "starts the children of an entry that it refuses",
    "fence",
    appends(async (append, pass) => {
      for (const child of append.entry.children) await pass(child);
      return await pass(append);
    }),
  ],
  [
    "accepts a late entry from an earlier epoch",
    "append late",
    lates((late, pass, memory) => pass({ ...late, epoch: memory.runs.get(late.id)?.epoch ?? late.epoch })),
  ],
  [
    "accepts a late entry at any place",
    "append late",
    lates((late, pass, memory) => pass({ ...late, seq: lengthOf(memory, late.id) + 1 })),
  ],
  [
    "accepts a late entry before the end",
    "append late",
    lates(async (late, pass, memory) => {
      const { status } = memory.runs.get(late.id) ?? {};
      edit(memory, late.id, () => ({ status: "completed" }));
      const answer = await pass(late);
      edit(memory, late.id, () => ({ status }));
      return answer;
    }),
  ],
  [
    "recognises a late entry by its epoch alone, not by its events",
    "append late",
    lates(async (late, pass, memory) => {
      const there = memory.journals.get(late.id)?.[late.seq - 1];
      return there?.epoch === late.epoch && there.seq > 2 ? { kind: "appended", now: 0, conflicts: [] } : await pass(late);
    }),
  ],
  [
    "lets other entries follow a late one",
    "append late",
    appends(async (append, pass, memory) => {
      const { status, endedAt } = memory.runs.get(append.id) ?? {};
      if (endedAt === null || lengthOf(memory, append.id) < 4) return await pass(append);
      edit(memory, append.id, () => ({ status: "running" }));
      const answer = await pass(append);
      edit(memory, append.id, () => ({ status }));
      return answer;
    }),
  ],
  [
    "purges a run whose steps are not settled",
    "append late",
    (faithful, memory) => ({
      ...faithful,
      async purge(limit) {
        for (const { id } of [...memory.runs.values()]) edit(memory, id, () => ({ unsettled: 0 }));
        return await faithful.purge(limit);
      },
    }),
  ],
  [
    "counts the retention of a settled run from its settlement",
    "append late",
    lates(async (late, pass, memory) => {
      const answer = await pass(late);
      if (late.unsettled === 0) edit(memory, late.id, ({ endedAt }) => ({ endedAt: (endedAt ?? 0) + 1000 }));
      return answer;
    }),
  ],
  [
    "delivers the mail of an entry that it refuses",
    "outgoing",
    appends(async (append, pass) => {
      for (const mail of append.entry.outgoing ?? []) await pass({ verb: "send", ...mail });
      return await pass(append);
    }),
  ],
];
