import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { ContractGroup } from "../contract-case.js";
import { beginOf, completed, dayMs, expectKind, send, settle, start } from "../ledger/operations.js";
import { shortMs } from "../ledger/scene.js";
import { names } from "../name.js";
import { eventsOf, lapse, picture, runCase, timeOf, unchanged } from "./run-case.js";
import {
  append,
  begin,
  claim,
  claimedIds,
  count,
  create,
  ended,
  expectAnswer,
  firstOf,
  hookOf,
  numbers,
  ownedOf,
  play,
  post,
  released,
  runOf,
  sendOf,
  startOf,
  submit,
  take,
  untried,
  workflow,
} from "./run-operations.js";

/** A name of the maximum length without repetitions, so that an index cannot compress it. */
function longName(of: string): string {
  let name = "";
  for (let i = 0; name.length < 512; i++) name += createHash("sha256").update(`${of} ${i}`).digest("base64url");
  return name.slice(0, 512);
}

export const starting: ContractGroup = {
  verb: "start",
  cases: [
    runCase("50 starts of one id at once, through two handles: one creates it, all others get that run", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const starts = numbers(50).map((i) => startOf({ input: `input ${i}`, fingerprint: `print ${i}`, first: firstOf() }));
      const answers = await Promise.all(starts.map((one, i) => submit(i % 2 === 0 ? store : other, one)));
      assert.deepEqual(count(answers.map(({ kind }) => kind)), { created: 1, exists: 49 });
      const winner = starts[answers.findIndex(({ kind }) => kind === "created")];
      const run = await runOf(store);
      assert.deepEqual(
        [run.creator, run.input, run.fingerprint, run.owner],
        [winner?.creator, winner?.input, winner?.fingerprint, winner?.first?.owner],
      );
      for (const answer of answers) if (answer.kind === "exists") assert.deepEqual({ ...answer.run }, run);
      assert.deepEqual(await eventsOf(store, "run"), [winner?.first?.entry.events]);
    }),

    runCase('the same start, sent again by the same creator, is answered "created" again and writes nothing', async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const first of [null, firstOf({ hooks: [hookOf("token")], children: [startOf({ id: "child", parent: "with first" })] })]) {
        const asked = startOf({ id: first ? "with first" : "pending", first });
        expectAnswer(await submit(store, asked), "created");
        for (const handle of [store, other]) {
          const answer = await unchanged(store, [asked.id, "child"], () => submit(handle, asked));
          assert.deepEqual(expectAnswer(answer, "created").conflicts, []);
        }
      }
    }),

    runCase('the same start, sent several times at once on two handles, is answered "created" each time', async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const asked = startOf({ first: firstOf({ hooks: [hookOf("token")] }) });
      const answers = await Promise.all([store, other, store, other].map((handle) => submit(handle, asked)));
      for (const answer of answers) assert.deepEqual(expectAnswer(answer, "created").conflicts, []);
      const { run, journal, hooks } = await picture(store, "run");
      assert.deepEqual([run?.epoch, journal.length, hooks.length], [1, 1, 1]);
    }),

    runCase('the same start, sent again after the run went on, was taken over or ended, is answered "created"', async (scene) => {
      const store = await scene.store();
      const asked = startOf({ first: firstOf({}, shortMs) });
      const { id, creator, first } = asked;
      assert.ok(first);
      expectAnswer(await submit(store, asked), "created");
      const again = () => unchanged(store, ["run"], () => submit(store, asked));
      await append(store, { id, creator, owner: first.owner, epoch: 1, seq: 1 });
      expectAnswer(await again(), "created");
      await lapse(scene, store);
      const next = ownedOf(await take(store, "run"));
      expectAnswer(await again(), "created");
      await append(store, next, { next: ended() });
      expectAnswer(await again(), "created");
    }),

    runCase("a start with a first entry makes its creator the owner in the same commit", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const before = await timeOf(store);
      const asked = startOf({ fingerprint: "print", parent: "parent", retentionMs: 1234, first: firstOf({ events: "first" }, 50_000) });
      const { now } = expectAnswer(await submit(store, asked), "created");
      assert.ok(now >= before && now <= (await timeOf(store)), `created at ${now}`);
      const { run, journal } = await picture(other, "run");
      const createdAt = run?.createdAt ?? Number.NaN;
      assert.ok(createdAt >= before && createdAt <= now);
      assert.deepEqual(run, {
        id: "run",
        workflow,
        status: "running",
        input: '"input"',
        fingerprint: "print",
        output: null,
        trouble: null,
        owner: asked.first?.owner,
        epoch: 1,
        wakeAt: createdAt + 50_000,
        mail: 0,
        consumed: 0,
        parent: "parent",
        creator: asked.creator,
        createdAt,
        startedAt: createdAt,
        endedAt: null,
        retentionMs: 1234,
        ...untried,
      });
      assert.deepEqual(journal, [{ seq: 1, epoch: 1, at: createdAt, events: "first" }]);
      assert.deepEqual(await claimedIds(other), []);
    }),

    runCase("a start without a first entry makes a pending run without owner and journal, due at once", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const { creator } = await create(store, { retentionMs: null });
      const { run, journal, mail, hooks } = await picture(other, "run");
      const createdAt = run?.createdAt ?? Number.NaN;
      assert.deepEqual(run, {
        id: "run",
        workflow,
        status: "pending",
        input: '"input"',
        fingerprint: null,
        output: null,
        trouble: null,
        owner: null,
        epoch: 0,
        wakeAt: createdAt,
        mail: 0,
        consumed: 0,
        parent: null,
        creator,
        createdAt,
        startedAt: null,
        endedAt: null,
        retentionMs: null,
        ...untried,
      });
      assert.deepEqual([journal, mail, hooks], [[], [], []]);
      assert.deepEqual(await claimedIds(other), ["run"]);
    }),

    runCase("the first entry may end the run or release it", async (scene) => {
      const store = await scene.store();
      await begin(store, { id: "parent" });
      await begin(store, { id: "short", parent: "parent", first: firstOf({ next: ended("failed", '"why"') }) });
      const over = await runOf(store, "short");
      assert.deepEqual([over.status, over.output, over.owner, over.wakeAt, over.epoch], ["failed", '"why"', null, null, 1]);
      assert.equal(over.endedAt, over.createdAt);
      const [mail] = await store.runs.mail("parent", 0);
      assert.deepEqual([mail?.kind, mail?.about], ["child", "short"]);
      const wakeAt = (await timeOf(store)) + dayMs;
      await begin(store, { id: "sleeper", first: firstOf({ next: released({ wakeAt }) }) });
      const asleep = await runOf(store, "sleeper");
      assert.deepEqual([asleep.status, asleep.owner, asleep.wakeAt, asleep.epoch], ["running", null, wakeAt, 1]);
      for (const id of ["short", "sleeper"]) assert.equal((await eventsOf(store, id)).length, 1);
      assert.deepEqual(await claimedIds(store), []);
    }),

    runCase("a start of an existing id returns the existing run in its current state", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const fields = { fingerprint: "print", input: "its own" };
      await create(store, { ...fields, id: "pending" });
      await begin(store, { ...fields, id: "running" });
      for (const status of ["unknown", "diverged"] as const)
        await play(store, { ...fields, id: status }, released({ status, trouble: "in words" }));
      for (const status of ["completed", "failed", "cancelled"] as const)
        await play(store, { ...fields, id: status }, ended(status, `output of ${status}`));
      for (const id of ["pending", "running", "unknown", "diverged", "completed", "failed", "cancelled"]) {
        const asked = startOf({ id, input: "another's", fingerprint: "another's", first: firstOf() });
        const { run } = expectAnswer(await unchanged(store, [id], () => submit(other, asked)), "exists");
        assert.deepEqual({ ...run }, await runOf(store, id));
        assert.deepEqual([run.status, run.fingerprint, run.input], [id, "print", "its own"]);
      }
    }),

    runCase("ids that differ only in case, accents, spaces, separators or wildcards stay apart", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await Promise.all(names.map((id) => begin(store, { id, input: `input of ${id}`, first: firstOf({ events: id }) })));
      await Promise.all(owned.map((one) => append(store, one, { next: ended("completed", one.id) })));
      for (const id of names) {
        const { run, journal } = await picture(other, id);
        assert.deepEqual([run?.id, run?.input, run?.output, journal[0]?.events], [id, `input of ${id}`, id, id]);
      }
    }),

    runCase("names of the maximum length work everywhere: ids, parents, workflows, owners, tokens, keys", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const [parent, id, workflow, token, key] = ["parent", "id", "workflow", "token", "key"].map(longName) as [string, ...string[]];
      const owner = longName("owner");
      await begin(store, { id: parent });
      await create(store, { id: id ?? "", parent, workflow: workflow ?? "" });
      const owned = ownedOf(await take(other, id ?? "", { workflows: [workflow ?? ""], owner }));
      assert.deepEqual([owned.id, owned.owner], [id, owner]);
      await append(other, owned, { hooks: [hookOf(`${token}${token}${token}`)] });
      const asked = sendOf({ to: { token: `${token}${token}${token}` }, key: key ?? "" });
      for (const duplicate of [false, true]) assert.deepEqual(await submit(store, asked), { kind: "sent", run: id, duplicate });
      await append(other, { ...owned, seq: 1 }, { next: ended() });
      assert.equal((await store.runs.mail(parent, 0))[0]?.about, id);
    }),

    runCase("an input of 1 MB is returned unchanged by every read", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const part = "\u00fc\ud83d\ude00\u2028\ufffd\\u0000\"' ";
      const input = part.repeat(Math.ceil((1024 * 1024) / Buffer.byteLength(part)));
      await create(store, { input });
      assert.ok((await store.runs.list({ limit: 1 }))[0]?.input === input);
      assert.ok((await runOf(other)).input === input);
      assert.ok(expectAnswer(await submit(other, startOf()), "exists").run.input === input);
      const { run, journal } = await take(other, "run");
      assert.ok(run.input === input);
      assert.deepEqual([journal, await store.runs.journal("run", 0, 10)], [[], []]);
    }),

    runCase("many starts in one turn share their flushes, and each has its own answer", async (scene) => {
      const store = await scene.store();
      const before = store.metrics.flushes;
      await create(store, { id: "run 10" });
      const answers = await Promise.all(numbers(600).map((i) => submit(store, startOf({ id: `run ${i}`, first: firstOf() }))));
      assert.ok(store.metrics.flushes - before <= 4, `${store.metrics.flushes - before} flushes`);
      for (const [i, answer] of answers.entries()) expectAnswer(answer, i + 1 === 10 ? "exists" : "created");
      assert.equal(store.metrics.runsCreated, 600);
    }),

    runCase("a run and a ledger record with the same name are independent, even in one turn", async (scene) => {
      const store = await scene.store();
      const [held] = await Promise.all([start(store, beginOf({ key: "run" })), begin(store)]);
      await Promise.all([settle(store, held, completed("record")), post(store), create(store, { id: "operation" })]);
      expectKind(await send(store, beginOf({ key: "operation" })), "started");
      assert.equal((await runOf(store)).mail, 1);
      assert.equal((await scene.record(held.begin)).outcome, '"record"');
    }),

    runCase("operations submitted before the store is closed are written, later ones are refused", async (scene) => {
      const [store, doomed] = [await scene.store(), await scene.open()];
      const starting = submit(doomed, startOf());
      const closing = doomed.close();
      await assert.rejects(submit(doomed, startOf({ id: "too late" })), { code: "STORE_UNREACHABLE" });
      expectAnswer(await starting, "created");
      await closing;
      assert.deepEqual(
        (await claim(store)).claimed.map(({ run }) => run.id),
        ["run"],
      );
    }),
  ],
};
