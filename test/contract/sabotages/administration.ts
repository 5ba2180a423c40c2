import { acts, appends, type BrokenGuarantee, edit, kindOf } from "./meddling.js";

/** Guarantees of actions of operators, of lists and of purges. */
export const administration: readonly BrokenGuarantee[] = [
  [
    "pages by time alone",
    "read",
    (faithful) => ({
      ...faithful,
      async list({ after, ...query }) {
        const runs = await faithful.list({ ...query, limit: 10_000 });
        return runs.filter(({ createdAt }) => after === undefined || createdAt < after.at).slice(0, query.limit);
      },
    }),
  ],
  [
    "removes runs that are kept without end",
    "purge",
    (faithful, memory) => ({
      ...faithful,
      async purge(limit) {
        for (const { id, retentionMs } of [...memory.runs.values()]) if (retentionMs === null) edit(memory, id, () => ({ retentionMs: 0 }));
        return await faithful.purge(limit);
      },
    }),
  ],
  [
    "leaves the mail of a purged run behind",
    "purge",
    (faithful, memory) => ({
      ...faithful,
      async purge(limit) {
        const boxes = new Map(memory.mailboxes);
        const removed = await faithful.purge(limit);
        for (const [id, box] of boxes) memory.mailboxes.set(id, box);
        return removed;
      },
    }),
  ],
  [
    "does an action again that is sent again",
    "act",
    acts(async (act, pass, memory) => {
      const logged = memory.log.splice(0);
      const answer = await pass(act);
      memory.log.unshift(...logged);
      return answer;
    }),
  ],
  [
    "logs an action that it refuses",
    "act",
    acts(async (act, pass, memory) => {
      const answer = await pass(act);
      if (kindOf(answer) !== "acted") memory.log.push({ ...act.log, no: memory.log.length + 1, at: 0 });
      return answer;
    }),
  ],
  ["does not compare the state on which an action was decided", "act", acts((act, pass) => pass({ ...act, expect: {} }))],
  [
    "keeps the journal of a run that an operator removes",
    "act",
    acts(async (act, pass, memory) => {
      const journal = memory.journals.get(act.id);
      const answer = await pass(act);
      if (journal !== undefined && !memory.runs.has(act.id)) memory.journals.set(act.id, journal);
      return answer;
    }),
  ],
  [
    "continues a failed run in its old epoch",
    "reopen",
    acts(async (act, pass, memory) => {
      const answer = await pass(act);
      if (act.change.kind !== "reopen" || kindOf(answer) !== "acted") return answer;
      edit(memory, act.id, ({ epoch }) => ({ epoch: epoch - 1 }));
      const journal = memory.journals.get(act.id) ?? [];
      const last = journal.pop();
      if (last) journal.push({ ...last, epoch: last.epoch - 1 });
      return answer;
    }),
  ],
  [
    "leaves the failure of a continued run in its parent's mail",
    "reopen",
    acts(async (act, pass, memory) => {
      const box = memory.mailboxes.get(memory.runs.get(act.id)?.parent ?? "");
      const before = [...(box?.mail ?? [])];
      const answer = await pass(act);
      box?.mail.splice(0, box.mail.length, ...before);
      return answer;
    }),
  ],
  [
    "withdraws a failure that a worker may be reading",
    "reopen",
    acts(async (act, pass, memory) => {
      const parent = memory.runs.get(memory.runs.get(act.id)?.parent ?? "");
      if (parent) edit(memory, parent.id, () => ({ owner: null }));
      const answer = await pass(act);
      if (parent) edit(memory, parent.id, () => ({ owner: parent.owner }));
      return answer;
    }),
  ],
  [
    "purges a continued run by its former end",
    "reopen",
    acts(async (act, pass, memory) => {
      const { endedAt } = memory.runs.get(act.id) ?? {};
      const answer = await pass(act);
      if (endedAt) edit(memory, act.id, () => ({ endedAt }));
      return answer;
    }),
  ],
  [
    "lists runs that a worker executes as overdue",
    "deadline",
    (faithful, memory) => ({
      ...faithful,
      overdueStops: async (limit) => {
        const before = new Map(memory.runs);
        for (const { id } of before.values()) edit(memory, id, () => ({ owner: null }));
        const found = await faithful.overdueStops(limit);
        for (const [id, run] of before) memory.runs.set(id, run);
        return found;
      },
    }),
  ],
  [
    "forgets the reason of an end",
    "deadline",
    appends((append, pass) => {
      const { then } = append.entry;
      if (then.kind !== "end") return pass(append);
      const { trouble: _, ...end } = then;
      return pass({ ...append, entry: { ...append.entry, then: end } });
    }),
  ],
  [
    "ignores the position in the operator log",
    "log",
    (faithful) => ({ ...faithful, log: ({ before: _, ...query }) => faithful.log(query) }),
  ],
];
