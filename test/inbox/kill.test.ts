import { open, type Store } from "onceflow";
import { createInbox, type Handled, type Inbox } from "onceflow/inbox";
import { type EffectServer, serveEffects } from "onceflow/testing";
import { describe, expect, inject, type TestContext, test } from "vitest";
import { effectKeyOf } from "../../src/core/ledger/key.js";
import { wasAlone } from "../../src/core/ledger/owner.js";
import { poll } from "../kit/poll.js";
import { Program } from "../kit/program.js";
import { type CrashDatabase, postgresDatabase, sqliteDatabase } from "../ledger/crash-database.js";
import { batch, handlerOf, type InboxDoom, inboxOptions, message } from "./programs/worker.js";

const server = inject("postgres");
const boundMs = 20_000;

type Doomed = Omit<InboxDoom, "url" | "providerUrl">;

interface Death extends Doomed {
  /** The state of the record when the process has died. */
  readonly left: "absent" | "running" | "completed" | "failed";
  /** The answer to the next delivery or retry, and how often the provider was called by then. */
  readonly next: Handled["status"] | "discarded";
  readonly attempt?: number;
  readonly calls: number;
}

/** A process dies while it handles a message. */
const handling: readonly Death[] = [
  { act: "handle", dieAt: "before begin", left: "absent", next: "processed", attempt: 1, calls: 1 },
  { act: "handle", dieAt: "after begin", left: "running", next: "processed", attempt: 2, calls: 1 },
  { act: "handle", dieAt: "before call", left: "running", next: "processed", attempt: 2, calls: 1 },
  { act: "handle", dieAt: "after call", left: "running", next: "processed", attempt: 2, calls: 2 },
  { act: "handle", dieAt: "before settle", left: "running", next: "processed", attempt: 2, calls: 2 },
  { act: "handle", dieAt: "after settle", left: "completed", next: "duplicate", calls: 1 },
  // The last attempt fails, and the process dies before or after the dead letter is written.
  { act: "handle", then: "fails", dieAt: "before settle", left: "running", next: "dead", attempt: 2, calls: 2 },
  { act: "handle", then: "fails", dieAt: "after settle", left: "failed", next: "dead", attempt: 1, calls: 1 },
];

/** A process dies while it retries or discards a dead letter, for which the provider was called once before. */
const retrying: readonly Death[] = [
  { act: "retry", dieAt: "before begin", left: "failed", next: "processed", attempt: 2, calls: 2 },
  { act: "retry", dieAt: "after begin", left: "failed", next: "processed", attempt: 3, calls: 2 },
  { act: "retry", dieAt: "after call", left: "failed", next: "processed", attempt: 3, calls: 3 },
  { act: "retry", dieAt: "before settle", left: "failed", next: "processed", attempt: 3, calls: 3 },
  { act: "retry", dieAt: "after settle", left: "failed", next: "duplicate", calls: 2 },
  { act: "retry", dieAt: "before resolve", left: "failed", next: "duplicate", calls: 2 },
  { act: "retry", dieAt: "after resolve", left: "completed", next: "duplicate", calls: 2 },
  { act: "retry", then: "fails", dieAt: "before settle", left: "failed", next: "dead", attempt: 3, calls: 3 },
  { act: "discard", dieAt: "before resolve", left: "failed", next: "discarded", calls: 1 },
  { act: "discard", dieAt: "after resolve", left: "completed", next: "discarded", calls: 1 },
];

const inTransactions: readonly Death[] = [
  { act: "handle", tx: true, dieAt: "before commit", left: "running", next: "processed", attempt: 2, calls: 1 },
  { act: "handle", tx: true, dieAt: "after commit", left: "completed", next: "duplicate", calls: 1 },
  { act: "retry", tx: true, dieAt: "before commit", left: "failed", next: "processed", attempt: 3, calls: 1 },
  { act: "retry", tx: true, dieAt: "after commit", left: "failed", next: "duplicate", calls: 1 },
];

interface Scene {
  readonly database: CrashDatabase;
  readonly provider: EffectServer;
  readonly store: Store;
  readonly inbox: Inbox;
  readonly live: (doom: Doomed) => Promise<unknown>;
  readonly handle: (doom: Doomed) => ReturnType<typeof handlerOf>;
}

async function sceneOf(context: TestContext, database: CrashDatabase, tx: boolean | undefined): Promise<Scene> {
  const provider = await serveEffects({ honoursKeys: true });
  context.onTestFinished(() => provider.close());
  const store = await open(database.url, { stallMsMax: 0 });
  context.onTestFinished(() => store.close());
  const where = { url: database.url, providerUrl: provider.url };
  const die = () => expect.unreachable("only others die");
  return {
    ...{ database, provider, store, inbox: createInbox(store, inboxOptions(tx)) },
    live: (doom) => live({ ...where, ...doom }),
    handle: ({ dieAt: _, ...doom }) => handlerOf({ ...where, ...doom }, die),
  };
}

/** Returns the output of the process, or "killed". */
async function live(doom: InboxDoom): Promise<unknown> {
  const { signal, stdout } = await new Program("inbox/programs/worker", [JSON.stringify(doom)], { onEnd: () => {} }).ended;
  return signal === "SIGKILL" ? "killed" : JSON.parse(stdout);
}

async function dies(death: Death, { database, provider, store, inbox, live, handle }: Scene): Promise<void> {
  const { act, tx = false } = death;
  const fails = handle({ act: "handle", then: "fails" });
  if (act === "retry" || act === "discard") expect((await inbox.handle(message, fails)).status).toBe("dead");

  expect(await live(death)).toBe("killed");
  const reading = await store.read({ scope: "inbox killed", key: "o-1" });
  expect(reading?.record.state ?? "absent").toBe(death.left);
  expect(await inbox.deadLetters()).toHaveLength(death.left === "failed" ? 1 : 0);
  if (death.left === "failed") expect((await inbox.deadLetter("o-1"))?.message).toEqual(message);

  if (death.next === "discarded") {
    // discard() does not wait for the dead process either: try until its lease has expired.
    const discarded = () =>
      inbox.discard("o-1").then(
        () => true,
        (error: { code?: string }) => (error.code === "RUNNING" ? undefined : Promise.reject(error)),
      );
    await poll(boundMs, discarded, () => "the message was never discarded");
    expect(await inbox.handle(message, fails)).toEqual({ status: "duplicate" });
  } else {
    const handler = handle({ act, ...(death.then && { then: death.then }), tx });
    // retry() does not wait for an attempt in progress: try until the lease of the dead process has expired.
    const ask = async () => {
      const handled = await (act === "retry" ? inbox.retry("o-1", handler) : inbox.handle(message, handler));
      return handled.status === "held" ? undefined : handled;
    };
    const handled = await poll(boundMs, ask, () => "the message stayed held");
    expect(handled).toMatchObject({ status: death.next, ...(death.attempt && { attempt: death.attempt }) });
    if (death.next !== "dead")
      expect(await inbox.handle(message, handler)).toEqual({ status: "duplicate", result: { attempt: expect.any(Number) } });
  }
  expect(await inbox.deadLetters()).toHaveLength(death.next === "dead" ? 1 : 0);
  const [effectKey = ""] = provider.effects.keys();
  if (tx) expect(await database.businessRows()).toBe(death.calls);
  else expect([provider.effects.rawCalls(effectKey), provider.effects.applied(effectKey)]).toEqual([death.calls, 1]);
  expect(provider.effects.keys()).toHaveLength(tx ? 0 : 1);
}

const places = {
  SQLite: {
    open: ({ onTestFinished }: TestContext) => sqliteDatabase(onTestFinished),
    deaths: [...handling, ...retrying, ...inTransactions],
  },
  PostgreSQL: {
    open: ({ onTestFinished, skip }: TestContext) => (server.ok ? postgresDatabase(server.url, onTestFinished) : skip(server.reason)),
    // The writes and their order are the same as on SQLite, so some of the points are enough.
    deaths: [...handling, ...retrying, ...inTransactions].filter(({ tx }, i) => tx || i % 5 === 3),
  },
};

describe.each(Object.entries(places))("an inbox on %s whose process is killed", (_, { open: openDatabase, deaths }) => {
  test.concurrent.for(deaths)("$act, $dieAt, then $then, tx: $tx", async (death, context) => {
    await dies(death, await sceneOf(context, await openDatabase(context), death.tx));
  });

  test.concurrent("in the middle of a batch: finished messages are duplicates, and the others are handled", async (context) => {
    const { live, inbox, handle, provider } = await sceneOf(context, await openDatabase(context), false);
    expect(await live({ act: "batch", dieAt: "after call" })).toBe("killed");
    const handled = await inbox.handleBatch(batch, handle({ act: "batch" }));
    // The second message had ended. Whether its outcome was written depends on the server, which may finish a statement of a dead client.
    const done = handled.map(({ status }) => status === "duplicate");
    expect([done[0] || !done[1], done[2], done[3]]).toEqual([true, false, false]);
    expect(handled).toMatchObject(
      done.map((is) => (is ? { status: "duplicate", result: { attempt: 1 } } : { status: "processed", attempt: 2 })),
    );
    const calls = batch.map(({ id }) => effectKeyOf("inbox killed", id)).map((key) => provider.effects.calls(key));
    expect(calls.map((each) => each.length)).toEqual([done[0] ? 1 : 2, done[1] ? 1 : 2, 2, 1]);
    expect(calls.map((each) => each.filter(({ applied }) => applied).length)).toEqual([1, 1, 1, 1]);
  });

  test.concurrent.for(["before settle", "after settle"] as const)(
    "when it returns a suspect to the queue, %s: that death is not counted",
    async (dieAt, context) => {
      const { live, inbox, handle, provider } = await sceneOf(context, await openDatabase(context), false);
      for (let death = 1; death <= 2; death += 1) expect(await live({ act: "handle", then: "kills" })).toBe("killed");
      for (let death = 1; death <= 2; death += 1) expect(await live({ act: "handle", dieAt })).toBe("killed");
      const ask = async () => {
        const handled = await inbox.handle(message, handle({ act: "handle" }));
        return handled.status === "held" ? undefined : handled;
      };
      expect(await poll(boundMs, ask, () => "the message stayed held")).toMatchObject({ status: "processed" });
      const [effectKey = ""] = provider.effects.keys();
      expect([provider.effects.rawCalls(effectKey), provider.effects.applied(effectKey)]).toEqual([3, 1]);
      expect(await inbox.deadLetters()).toEqual([]);
    },
  );

  test.concurrent("by every attempt of a message: the message becomes a dead letter and kills no other process", async (context) => {
    const { live, inbox, provider } = await sceneOf(context, await openDatabase(context), false);
    const poison = { act: "handle", then: "kills" } as const;
    // Two deaths make the message a suspect. Handled alone, it may then kill as many processes as there are attempts.
    for (let death = 1; death <= 4; death += 1) expect(await live(poison)).toBe("killed");
    expect(await live(poison)).toMatchObject({ status: "dead", attempt: 7, error: { code: "ATTEMPTS_EXHAUSTED" } });
    expect(await live(poison)).toMatchObject({ status: "dead", attempt: 7, replayed: true });
    const [effectKey = ""] = provider.effects.keys();
    expect([provider.effects.rawCalls(effectKey), provider.effects.applied(effectKey)]).toEqual([4, 1]);
    const letter = await inbox.deadLetter("o-1");
    expect(letter?.message).toEqual(message);
    const [beside, alone] = [
      ["lapsed", false],
      ["lapsed", true],
    ];
    const back = ["released", false];
    expect(letter?.attempts.map((entry) => [entry.verdict, wasAlone(entry)])).toEqual([
      ...[beside, beside, back, alone, back, alone],
      ["failed", false],
    ]);
  });
});
