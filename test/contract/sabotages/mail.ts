import { appends, type BrokenGuarantee, edit, kindOf, meddling, turn } from "./meddling.js";

/** Guarantees of hooks and mail. */
export const mail: readonly BrokenGuarantee[] = [
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
      // The mail has to arrive too late, on the real clock of this store.
      setTimeout(() => void pass(mail), 5);
      return answer;
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
    "wakes a paused run by any mail",
    "pause",
    meddling(async (operation, pass, memory) => {
      const answer = await pass(operation);
      if (typeof answer === "object" && answer.kind === "sent")
        edit(memory, answer.run, ({ owner }) => (owner === null ? { wakeAt: 0 } : {}));
      return answer;
    }),
  ],
];
