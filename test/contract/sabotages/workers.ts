import { appends, type BrokenGuarantee, claims, edit, meddling, renews, turn } from "./meddling.js";

/** Guarantees of claims and leases. */
export const workers: readonly BrokenGuarantee[] = [
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
        // The count has to arrive too late, on the real clock of this store.
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
];
