import { memoryTarget, runContract } from "onceflow/testing";
import { describe, expect, test } from "vitest";
import { firstBroken } from "./first-broken.js";

/** Each sabotage wraps the runs of the memory store and breaks one guarantee. The run contract must find all of them. */
type Sabotage = NonNullable<Parameters<typeof memoryTarget>[0]["runs"]>;
type Runs = Parameters<Sabotage>[0];
type Memory = Parameters<Sabotage>[1];
type Operation = Parameters<Runs["flush"]>[0][number];
type Append = Extract<Operation, { readonly verb: "append" }>;
type Answer = Awaited<ReturnType<Runs["flush"]>>[number];

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Passes every operation to `meddle`, which may forward it, changed or not, and change the memory before and after. */
function meddling(
  meddle: (operation: Operation, pass: (operation: Operation) => Promise<Answer>, memory: Memory) => Promise<Answer>,
): Sabotage {
  return (faithful, memory) => ({
    ...faithful,
    async flush(operations) {
      const pass = async (operation: Operation) => (await faithful.flush([operation]))[0] as Answer;
      const answers: Answer[] = [];
      for (const operation of operations) answers.push(await meddle(operation, pass, memory));
      return answers;
    },
  });
}

const appends = (meddle: (append: Append, pass: (operation: Operation) => Promise<Answer>, memory: Memory) => Promise<Answer>): Sabotage =>
  meddling((operation, pass, memory) => (operation.verb === "append" ? meddle(operation, pass, memory) : pass(operation)));

type Act = Extract<Operation, { readonly verb: "act" }>;
const acts = (meddle: (act: Act, pass: (operation: Operation) => Promise<Answer>, memory: Memory) => Promise<Answer>): Sabotage =>
  meddling((operation, pass, memory) => (operation.verb === "act" ? meddle(operation, pass, memory) : pass(operation)));

type Write = Extract<Operation, { readonly verb: "write" }>;
const writes = (meddle: (write: Write, pass: (operation: Operation) => Promise<Answer>, memory: Memory) => Promise<Answer>): Sabotage =>
  meddling((operation, pass, memory) => (operation.verb === "write" ? meddle(operation, pass, memory) : pass(operation)));

type Late = Extract<Operation, { readonly verb: "appendLate" }>;
const lates = (meddle: (late: Late, pass: (operation: Operation) => Promise<Answer>, memory: Memory) => Promise<Answer>): Sabotage =>
  meddling((operation, pass, memory) => (operation.verb === "appendLate" ? meddle(operation, pass, memory) : pass(operation)));

const renews =
  (renew: (faithful: Runs, query: Parameters<Runs["renew"]>[0]) => ReturnType<Runs["renew"]>): Sabotage =>
  (faithful) => ({ ...faithful, renew: (query) => renew(faithful, query) });

const claims =
  (claim: (faithful: Runs, memory: Memory) => Runs["claim"]): Sabotage =>
  (faithful, memory) => ({
    ...faithful,
    claim: claim(faithful, memory),
  });

const kindOf = (answer: Answer) => (answer === "again" ? answer : answer.kind);

const lengthOf = ({ journals }: Memory, id: string) => journals.get(id)?.length ?? 0;

function edit({ runs }: Memory, id: string, change: (run: NonNullable<ReturnType<Memory["runs"]["get"]>>) => object): void {
  const run = runs.get(id);
  if (run) runs.set(id, { ...run, ...change(run) });
}

/** The broken guarantee, the verb under which the contract must find it, and the sabotage. */
const sabotages: readonly (readonly [does: string, verb: string, Sabotage])[] = [
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
  [
    "gives a token to the last caller",
    "hook",
    meddling(async (operation, pass, memory) => {
      const entry = operation.verb === "append" ? operation.entry : operation.verb === "start" ? operation.first?.entry : undefined;
      for (const change of entry?.hooks ?? []) if ("add" in change) memory.hooks.delete(change.add);
      return await pass(operation);
    }),
  ],
  [
    "keeps the hooks of a run that has ended",
    "hook",
    appends(async (append, pass, memory) => {
      const hooks = [...memory.hooks].filter(([, { run }]) => run === append.id);
      const answer = await pass(append);
      if (append.entry.then.kind === "end") for (const [token, hook] of hooks) memory.hooks.set(token, hook);
      return answer;
    }),
  ],
  [
    "forgets the key of mail that was consumed",
    "mail",
    meddling(async (operation, pass, memory) => {
      for (const [id, { keys, mail }] of memory.mailboxes) if (memory.runs.get(id)?.consumed === mail.length) keys.clear();
      return await pass(operation);
    }),
  ],
  [
    "makes mail wait for the timer of its run",
    "mail",
    meddling(async (operation, pass, memory) => {
      const before = new Map(memory.runs);
      const answer = await pass(operation);
      if (typeof answer === "object" && answer.kind === "sent")
        edit(memory, answer.run, ({ id }) => ({ wakeAt: before.get(id)?.wakeAt ?? null }));
      return answer;
    }),
  ],
  [
    "takes a run from its live owner when mail arrives",
    "mail",
    meddling(async (operation, pass, memory) => {
      const answer = await pass(operation);
      if (typeof answer === "object" && answer.kind === "sent" && !answer.duplicate) edit(memory, answer.run, () => ({ wakeAt: 0 }));
      return answer;
    }),
  ],
  [
    "notifies a parent of the end of its child in a separate commit",
    "child",
    appends(async (append, pass, memory) => {
      const { parent } = { ...memory.runs.get(append.id) };
      if (append.entry.then.kind !== "end" || !parent) return await pass(append);
      edit(memory, append.id, () => ({ parent: null }));
      const answer = await pass(append);
      edit(memory, append.id, () => ({ parent }));
      const { status, output } = append.entry.then;
      const payload = JSON.stringify([status, output]);
      const mail = { verb: "send", to: { run: parent }, kind: "child", about: append.id, payload, key: `child ${append.id}` } as const;
      // biome-ignore lint/style/noRestrictedGlobals: the mail has to arrive too late, on the real clock of this store
      setTimeout(() => void pass(mail), 5);
      return answer;
    }),
  ],
  [
    "claims runs of a live owner",
    "claim",
    claims((faithful, memory) => async (query) => {
      for (const { id, owner } of [...memory.runs.values()]) if (owner !== null) edit(memory, id, () => ({ wakeAt: 0 }));
      return await faithful.claim(query);
    }),
  ],
  [
    "does not raise the epoch",
    "claim",
    claims((faithful, memory) => async (query) => {
      const { claimed, ...rest } = await faithful.claim(query);
      for (const { run } of claimed) edit(memory, run.id, ({ epoch }) => ({ epoch: Math.max(1, epoch - 1) }));
      return { ...rest, claimed: claimed.map((one) => ({ ...one, run: memory.runs.get(one.run.id) ?? one.run })) };
    }),
  ],
  [
    "gives one run to two workers that claim at the same time",
    "claim",
    claims((faithful, memory) => async (query) => {
      const seen = [...memory.runs.values()].filter(({ wakeAt, owner }) => owner === null && wakeAt !== null).slice(0, query.limit);
      await turn();
      for (const run of seen) memory.runs.set(run.id, run);
      return await faithful.claim(query);
    }),
  ],
  [
    "does not count the death of an owner",
    "suspect",
    claims((faithful, memory) => async (query) => {
      const before = new Map(memory.runs);
      const { claimed, ...rest } = await faithful.claim(query);
      for (const { run } of claimed) edit(memory, run.id, () => ({ deaths: before.get(run.id)?.deaths ?? 0 }));
      return { ...rest, claimed: claimed.map((one) => ({ ...one, run: memory.runs.get(one.run.id) ?? one.run })) };
    }),
  ],
  [
    "counts every claim as a death",
    "suspect",
    claims((faithful, memory) => async (query) => {
      const { claimed, ...rest } = await faithful.claim(query);
      for (const { run, lapsed } of claimed) if (!lapsed) edit(memory, run.id, ({ deaths }) => ({ deaths: deaths + 1 }));
      return { ...rest, claimed: claimed.map((one) => ({ ...one, run: memory.runs.get(one.run.id) ?? one.run })) };
    }),
  ],
  [
    "counts a death only after the claim was answered",
    "suspect",
    claims((faithful, memory) => async (query) => {
      const before = new Map(memory.runs);
      const { claimed, ...rest } = await faithful.claim(query);
      for (const { run } of claimed) {
        edit(memory, run.id, () => ({ deaths: before.get(run.id)?.deaths ?? 0 }));
        // biome-ignore lint/style/noRestrictedGlobals: the count has to arrive too late, on the real clock of this store
        setTimeout(() => edit(memory, run.id, ({ deaths }) => ({ deaths: deaths + 1 })), 50);
      }
      return { ...rest, claimed };
    }),
  ],
  [
    "counts every death as a crash",
    "suspect",
    claims((faithful, memory) => async (query) => {
      for (const { id } of [...memory.runs.values()]) edit(memory, id, () => ({ alone: true }));
      return await faithful.claim(query);
    }),
  ],
  [
    "accepts the death count of a late owner",
    "suspect",
    appends(async (append, pass, memory) => {
      const { trial } = append.entry;
      if (trial) edit(memory, append.id, () => trial);
      return await pass(append);
    }),
  ],
  [
    "claims all suspects at once",
    "suspect",
    claims((faithful, memory) => async (query) => {
      const suspects = [...memory.runs.values()].filter(({ deaths }) => deaths >= 2);
      for (const { id } of suspects) edit(memory, id, () => ({ deaths: 0 }));
      const claims = await faithful.claim(query);
      for (const { id, deaths } of suspects) edit(memory, id, () => ({ deaths }));
      return claims;
    }),
  ],
  [
    "reports suspects to a worker that may not claim them",
    "suspect",
    claims((faithful, memory) => async (query) => {
      const claims = await faithful.claim(query);
      const times = [...memory.runs.values()].flatMap(({ wakeAt, owner, deaths }) =>
        deaths >= 2 && wakeAt !== null && owner !== query.owner ? [wakeAt] : [],
      );
      const nextAt = Math.min(claims.nextAt ?? Number.POSITIVE_INFINITY, ...times);
      return { ...claims, nextAt: Number.isFinite(nextAt) ? nextAt : null };
    }),
  ],
  [
    "lets suspects at the head of the queue block the runs after them",
    "suspect",
    claims((faithful, memory) => async (query) => {
      const [first] = [...memory.runs.values()]
        .filter(({ wakeAt, workflow }) => wakeAt !== null && query.workflows.includes(workflow))
        .sort((a, b) => (a.wakeAt ?? 0) - (b.wakeAt ?? 0));
      const blocked = (first?.deaths ?? 0) >= 2 && query.suspects === false;
      return await faithful.claim(blocked ? { ...query, limit: 0 } : query);
    }),
  ],
  [
    "gives a run to a worker that it is to avoid",
    "avoid",
    claims((faithful, memory) => async (query) => {
      for (const { id } of [...memory.runs.values()]) edit(memory, id, () => ({ avoidUntil: 0 }));
      return await faithful.claim(query);
    }),
  ],
  [
    "keeps a run from all workers for as long as from the avoided ones",
    "avoid",
    claims((faithful, memory) => async (query) => {
      for (const { id, avoidUntil } of [...memory.runs.values()])
        if (avoidUntil !== null) edit(memory, id, ({ wakeAt }) => ({ wakeAt: Math.max(wakeAt ?? 0, avoidUntil) }));
      return await faithful.claim(query);
    }),
  ],
  [
    "makes a worker wait although mail has arrived",
    "avoid",
    meddling(async (operation, pass, memory) => {
      const before = new Map(memory.runs);
      const answer = await pass(operation);
      if (operation.verb !== "send" || typeof answer !== "object" || answer.kind !== "sent") return answer;
      const { avoid, avoidUntil } = before.get(answer.run) ?? {};
      if (avoid?.length) edit(memory, answer.run, () => ({ avoid, avoidUntil }));
      return answer;
    }),
  ],
  [
    "keeps avoiding workers after a release that names none",
    "avoid",
    appends(async (append, pass, memory) => {
      const { avoid, avoidUntil } = memory.runs.get(append.id) ?? {};
      const answer = await pass(append);
      const { then } = append.entry;
      if (then.kind === "release" && then.avoid === undefined && avoid?.length) edit(memory, append.id, () => ({ avoid, avoidUntil }));
      return answer;
    }),
  ],
  [
    "makes an avoided worker poll at once",
    "avoid",
    claims((faithful, memory) => async (query) => {
      const claims = await faithful.claim(query);
      const avoided = [...memory.runs.values()].some(
        ({ avoid, avoidUntil }) => avoid.includes(query.owner) && (avoidUntil ?? 0) > claims.now,
      );
      return avoided ? { ...claims, nextAt: claims.now } : claims;
    }),
  ],
  [
    "claims other runs beside the requested one",
    "avoid",
    claims(
      (faithful) =>
        async ({ run: _, ...query }) =>
          await faithful.claim(query),
    ),
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
    "writes a worker's row at every renewal",
    "worker",
    renews((faithful, query) => faithful.renew({ signOfLife: { workflows: ["order", "refund"], version: "1.2.3" }, ...query })),
  ],
  [
    "takes every heartbeat for a worker's first",
    "worker",
    renews(async (faithful, query) => {
      if (query.signOfLife) await faithful.leave(query.owner);
      return await faithful.renew(query);
    }),
  ],
  [
    "takes a silent worker for a live one",
    "worker",
    (faithful) => ({ ...faithful, workers: async () => (await faithful.workers()).map((worker) => ({ ...worker, live: true })) }),
  ],
  ["keeps a worker that has left", "worker", (faithful) => ({ ...faithful, leave: async () => {} })],
  [
    "takes the runs from a worker that has left",
    "worker",
    (faithful, memory) => ({
      ...faithful,
      async leave(owner) {
        for (const { id } of [...memory.runs.values()].filter((run) => run.owner === owner)) edit(memory, id, () => ({ owner: null }));
        await faithful.leave(owner);
      },
    }),
  ],
  [
    "lists workers that were silent for an hour",
    "worker",
    (faithful, memory) => ({
      ...faithful,
      workers: async () => [...memory.workers.values()].map(({ leaseUntil: _, ...worker }) => ({ ...worker, live: true })),
    }),
  ],
  [
    "keeps workers without end",
    "worker",
    (faithful, memory) => ({
      ...faithful,
      async purge(limit) {
        const workers = new Map(memory.workers);
        const removed = await faithful.purge(limit);
        for (const [id, worker] of workers) memory.workers.set(id, worker);
        return removed;
      },
    }),
  ],
  [
    "renews the leases of all workers",
    "renew",
    (faithful, memory) => ({
      ...faithful,
      async renew(query) {
        const others = new Set([...memory.runs.values()].flatMap(({ owner }) => owner ?? []));
        const all = await Promise.all([...others].map((owner) => faithful.renew({ ...query, owner })));
        return all.flat();
      },
    }),
  ],
  [
    "pages by time alone",
    "read",
    (faithful) => ({
      ...faithful,
      async list({ after, ...query }) {
        const runs = await faithful.list({ ...query, limit: 10_000 });
        return runs.filter(({ createdAt }) => after === undefined || createdAt < after.createdAt).slice(0, query.limit);
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
    "keeps notifying a watcher that has stopped",
    "watch",
    (faithful) => ({
      ...faithful,
      watch(changed) {
        faithful.watch(changed);
        return () => {};
      },
    }),
  ],
  [
    "misses mail that arrives while a run is released",
    "race",
    appends(async (append, pass, memory) => {
      const { then, consumed } = append.entry;
      const seen = memory.runs.get(append.id);
      await turn();
      const answer = await pass(append);
      if (then.kind === "release" && kindOf(answer) === "appended" && seen?.mail === (consumed ?? seen?.consumed))
        edit(memory, append.id, () => ({ wakeAt: then.wakeAt }));
      return answer;
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
    "wakes a paused run by any mail",
    "pause",
    meddling(async (operation, pass, memory) => {
      const answer = await pass(operation);
      if (typeof answer === "object" && answer.kind === "sent")
        edit(memory, answer.run, ({ owner }) => (owner === null ? { wakeAt: 0 } : {}));
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

/** The name of the first case that the memory store passes and the sabotaged store fails. */
const broken = (verb: string, runs: Sabotage) =>
  firstBroken(runContract, verb, memoryTarget({ time: "virtual", runs }), memoryTarget({ time: "virtual" }));

describe("the run contract finds a store that", () => {
  for (const [does, verb, sabotage] of sabotages) test(does, async () => expect(await broken(verb, sabotage)).toBeTypeOf("string"));
});

describe("the run contract accepts a store that", () => {
  /** Delays each call, so that other calls run in between. */
  const slow: Sabotage = (faithful) => {
    let calls = 0;
    const later = async () => {
      calls += 1;
      for (let turns = calls % 5; turns > 0; turns--) await turn();
    };
    const slowly =
      <A extends readonly unknown[], R>(verb: (...args: A) => Promise<R>) =>
      async (...args: A): Promise<R> => {
        await later();
        const result = await verb(...args);
        await later();
        return result;
      };
    return {
      ...faithful,
      flush: slowly(faithful.flush),
      claim: slowly(faithful.claim),
      load: slowly(faithful.load),
      renew: slowly(faithful.renew),
      workers: slowly(faithful.workers),
      leave: slowly(faithful.leave),
      mail: slowly(faithful.mail),
      read: slowly(faithful.read),
      journal: slowly(faithful.journal),
      list: slowly(faithful.list),
      hook: slowly(faithful.hook),
      chunks: slowly(faithful.chunks),
      tail: slowly(faithful.tail),
      overdueStops: slowly(faithful.overdueStops),
      log: slowly(faithful.log),
      purge: slowly(faithful.purge),
      // Notifications are late, name no run, and come more often than needed.
      watch: (changed) => {
        let stopped = false;
        const stop = faithful.watch(() => {
          // biome-ignore lint/style/noRestrictedGlobals: the notification has to come late, on the real clock of this store
          for (const ms of [1, 5]) setTimeout(() => stopped || changed(null), ms);
        });
        return () => {
          stopped = true;
          stop();
        };
      },
    };
  };

  /** Answers every second operation of a flush with "again", as if another process had been faster. */
  const contended: Sabotage = (faithful) => ({
    ...faithful,
    async flush(operations) {
      const taken = operations.filter((_, i) => operations.length === 1 || i % 2 === 0);
      const answers = await faithful.flush(taken);
      return operations.map((operation) => answers[taken.indexOf(operation)] ?? "again");
    },
  });

  for (const { verb } of runContract) {
    test(`is slow: ${verb}`, async () => expect(await broken(verb, slow)).toBeUndefined());
    // Such a store may take more flushes than one that never has to retry.
    if (verb !== "start" && verb !== "append")
      test(`loses races: ${verb}`, async () => expect(await broken(verb, contended)).toBeUndefined());
  }
});
