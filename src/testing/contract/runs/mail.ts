import assert from "node:assert/strict";
import type { MailKind } from "../../../core/runs/run.js";
import type { ContractGroup } from "../contract-case.js";
import { dayMs } from "../ledger/operations.js";
import { shortMs } from "../ledger/scene.js";
import { names } from "../name.js";
import { lapse, picture, runCase, timeOf, unchanged } from "./run-case.js";
import {
  append,
  appendOf,
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
  play,
  post,
  released,
  runOf,
  sendOf,
  submit,
  take,
} from "./run-operations.js";

const kinds: readonly MailKind[] = ["hook", "cancel", "wake", "child", "resolve"];

export const mailing: ContractGroup = {
  verb: "mail",
  cases: [
    runCase("mail is numbered from 1 in the order in which it was sent, and is returned unchanged", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const before = await timeOf(store);
      await begin(store);
      for (const [i, kind] of kinds.entries())
        await post(i % 2 === 0 ? store : other, { kind, about: i === 0 ? null : `about ${i}`, payload: i === 1 ? null : `payload ${i}` });
      const mail = await other.runs.mail("run", 0);
      assert.deepEqual(
        mail.map(({ seq, kind, about, payload }) => [seq, kind, about, payload]),
        kinds.map((kind, i) => [i + 1, kind, i === 0 ? null : `about ${i}`, i === 1 ? null : `payload ${i}`]),
      );
      for (const { at } of mail) assert.ok(at >= before && at <= (await timeOf(store)));
      const { mail: newest, consumed } = await runOf(store);
      assert.deepEqual([newest, consumed], [5, 0]);
    }),

    runCase("mail after a number, in order, and no other run's", async (scene) => {
      const store = await scene.store();
      await begin(store);
      await begin(store, { id: "neighbour" });
      for (const i of numbers(5)) {
        await post(store, { payload: `${i}` });
        await post(store, { to: { run: "neighbour" }, payload: "not for it" });
      }
      const payloads = async (seq: number) => (await store.runs.mail("run", seq)).map(({ payload }) => payload);
      assert.deepEqual(await payloads(0), ["1", "2", "3", "4", "5"]);
      assert.deepEqual(await payloads(3), ["4", "5"]);
      assert.deepEqual(await payloads(5), []);
      assert.deepEqual(await payloads(99), []);
    }),

    runCase("mail to a token reaches the run that has the hook, and names the hook", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await begin(store, { first: firstOf({ hooks: [hookOf("token", "the hook")] }) });
      const answer = expectAnswer(
        await submit(other, sendOf({ to: { token: "token" }, about: "something else", payload: "hello" })),
        "sent",
      );
      assert.deepEqual(answer, { kind: "sent", run: "run", duplicate: false });
      await post(other, { about: "by run", payload: "there" });
      assert.deepEqual(
        (await store.runs.mail("run", 0)).map(({ about, payload }) => [about, payload]),
        [
          ["the hook", "hello"],
          ["by run", "there"],
        ],
      );
    }),

    runCase("mail to a token reaches the run that has the token now", async (scene) => {
      const store = await scene.store();
      const first = await begin(store, { id: "first", first: firstOf({ hooks: [hookOf("token")] }) });
      const answers = [await submit(store, sendOf({ to: { token: "token" } }))];
      await append(store, first, { hooks: [{ drop: "token" }] });
      answers.push(await submit(store, sendOf({ to: { token: "token" } })));
      await begin(store, { id: "second", first: firstOf({ hooks: [hookOf("token")] }) });
      answers.push(await submit(store, sendOf({ to: { token: "token" } })));
      assert.deepEqual(answers, [
        { kind: "sent", run: "first", duplicate: false },
        { kind: "absent" },
        { kind: "sent", run: "second", duplicate: false },
      ]);
    }),

    runCase("mail with a known key is not delivered again, before and after it was consumed, and wakes no run", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await begin(store, { first: firstOf({ hooks: [hookOf("token")] }) });
      const asked = sendOf({ key: "key", payload: "first" });
      const again = async () => {
        for (const send of [asked, { ...asked, payload: "second" }, { ...asked, to: { token: "token" } }]) {
          const answer = await unchanged(store, ["run"], () => submit(other, send));
          assert.deepEqual(answer, { kind: "sent", run: "run", duplicate: true });
        }
      };
      assert.deepEqual(await submit(store, asked), { kind: "sent", run: "run", duplicate: false });
      await again();
      await append(store, owned, { consumed: 1, next: released() });
      await again();
      assert.deepEqual(await claimedIds(store), []);
      assert.deepEqual(
        (await store.runs.mail("run", 0)).map(({ payload }) => payload),
        ["first"],
      );
    }),

    runCase("the same key sent many times at once, by run and by token, on two handles: delivered once", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await begin(store, { first: firstOf({ hooks: [hookOf("token")] }) });
      const answers = await Promise.all(
        numbers(20).map((i) =>
          submit(i % 2 === 0 ? store : other, sendOf({ to: i % 3 === 0 ? { token: "token" } : { run: "run" }, key: "key" })),
        ),
      );
      assert.equal(answers.filter((answer) => !expectAnswer(answer, "sent").duplicate).length, 1);
      const { run, mail } = await picture(store, "run");
      assert.deepEqual([mail.length, run?.mail], [1, 1]);
    }),

    runCase("a key names mail of one run; keys that differ only in case, accents or spaces are others", async (scene) => {
      const store = await scene.store();
      // Each mail is a separate flush.
      const keys = names.slice(0, 40);
      await Promise.all(["run", "other"].map((id) => begin(store, { id })));
      const sends = ["run", "other"].flatMap((id) => keys.map((key) => sendOf({ to: { run: id }, key, payload: key })));
      for (const answer of await Promise.all(sends.map((send) => submit(store, send))))
        assert.equal(expectAnswer(answer, "sent").duplicate, false);
      for (const id of ["run", "other"])
        assert.deepEqual((await store.runs.mail(id, 0)).map(({ payload }) => payload).sort(), keys.toSorted());
    }),

    runCase("mail to a run or hook that does not exist: absent, and nothing is stored", async (scene) => {
      const store = await scene.store();
      for (const to of [{ run: "run" }, { token: "token" }, { token: "run" }])
        expectAnswer(await submit(store, sendOf({ to, key: "key" })), "absent");
      await begin(store, { first: firstOf({ hooks: [hookOf("token")] }) });
      assert.deepEqual([(await runOf(store)).mail, await store.runs.mail("run", 0)], [0, []]);
      assert.deepEqual(await submit(store, sendOf({ key: "key" })), { kind: "sent", run: "run", duplicate: false });
      expectAnswer(await submit(store, sendOf({ to: { run: "token" } })), "absent");
    }),

    runCase("mail to a run that has ended: ended, and nothing is stored", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const status of ["completed", "failed", "cancelled"] as const) {
        await play(store, { id: status, first: firstOf({ hooks: [hookOf(`token of ${status}`)] }) }, ended(status));
        const answer = await unchanged(store, [status], () => submit(other, sendOf({ to: { run: status } })));
        assert.deepEqual(answer, { kind: "ended", run: status });
        expectAnswer(await submit(other, sendOf({ to: { token: `token of ${status}` } })), "absent");
      }
    }),

    // The reply was lost, and the run consumed the mail and ended before the mail was sent again: the answer must say that it arrived.
    runCase("mail that arrived is recognised when it is sent again, also after the end of its run", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      const asked = sendOf();
      expectAnswer(await submit(store, asked), "sent");
      await append(store, owned, { consumed: 1, next: ended() });
      assert.deepEqual(await submit(store, asked), { kind: "sent", run: "run", duplicate: true });
    }),

    runCase("mail wakes a run that sleeps, at once, whether it has a timer or none", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const wakeAt = (await timeOf(store)) + dayMs;
      await append(store, await begin(store, { id: "timer" }), { next: released({ wakeAt }) });
      await append(store, await begin(store, { id: "no timer" }), { next: released() });
      await append(store, await begin(store, { id: "asleep" }), { next: released({ wakeAt }) });
      assert.deepEqual(await claimedIds(store), []);
      for (const id of ["timer", "no timer"]) await post(other, { to: { run: id }, payload: id });
      const { claimed } = await claim(store);
      assert.deepEqual(claimed.map(({ run, mail, lapsed }) => [run.id, mail[0]?.payload, lapsed]).sort(), [
        ["no timer", "no timer", false],
        ["timer", "timer", false],
      ]);
    }),

    runCase("mail does not take a run from its live owner, and the owner's next renewal reports it", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await begin(store);
      const before = await runOf(store);
      await post(other);
      assert.deepEqual(await runOf(store), { ...before, mail: 1 });
      assert.deepEqual(await claimedIds(other), []);
      const renewed = await store.runs.renew({ owner: owned.owner, leaseMs: 60_000 });
      assert.deepEqual(
        renewed.map(({ id, epoch, mail }) => [id, epoch, mail]),
        [["run", 1, 1]],
      );
    }),

    runCase("mail to a run whose owner fell silent does not make it look released", async (scene) => {
      const store = await scene.store();
      await begin(store, { first: firstOf({}, shortMs) });
      await lapse(scene, store);
      await post(store, { payload: "hello" });
      const { lapsed, mail } = await take(store, "run");
      assert.deepEqual([lapsed, mail.map(({ payload }) => payload)], [true, ["hello"]]);
    }),

    runCase("mail to a pending run leaves it pending, and its first claim returns the mail", async (scene) => {
      const store = await scene.store();
      await create(store);
      await post(store, { payload: "early" });
      assert.equal((await runOf(store)).status, "pending");
      const { mail, lapsed } = await take(store, "run");
      assert.deepEqual([mail.map(({ payload }) => payload), lapsed], [["early"], false]);
    }),

    // Otherwise a run that keeps getting mail is never the oldest, and waits forever behind the others.
    runCase("mail does not push back a run that is due already", async (scene) => {
      const store = await scene.store();
      const now = await timeOf(store);
      await append(store, await begin(store, { id: "first" }), { next: released({ wakeAt: now - 2000 }) });
      await append(store, await begin(store, { id: "second" }), { next: released({ wakeAt: now - 1000 }) });
      await post(store, { to: { run: "first" } });
      assert.deepEqual(await claimedIds(store, { limit: 1 }), ["first"]);
    }),

    runCase("a claim returns the unconsumed mail of the run, in order, and no other mail", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await begin(store);
      for (const i of numbers(5)) await post(other, { payload: `${i}` });
      await append(store, owned, { consumed: 3, next: released() });
      const { mail, run } = await take(other, "run");
      assert.deepEqual(
        mail.map(({ seq, payload }) => [seq, payload]),
        [
          [4, "4"],
          [5, "5"],
        ],
      );
      assert.deepEqual([run.mail, run.consumed], [5, 3]);
      assert.equal((await store.runs.mail("run", 0)).length, 5);
    }),

    runCase("100 mails at once from two handles are all stored, without gaps or duplicates", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await begin(store, { first: firstOf({ hooks: [hookOf("token")] }) });
      const order: Record<string, number[]> = { store: [], other: [] };
      await Promise.all(
        numbers(100).map(async (i) => {
          const [from, handle] = i % 2 === 0 ? ["store", store] : ["other", other];
          order[from as string]?.push(i);
          await post(handle as typeof store, { payload: `${from} ${i}` });
        }),
      );
      const { mail, run } = await picture(store, "run");
      assert.deepEqual(
        mail.map(({ seq }) => seq),
        numbers(100),
      );
      assert.equal(run?.mail, 100);
      // The mail of each handle is in the order in which the handle sent it.
      for (const [from, sent] of Object.entries(order)) {
        const arrived = mail.filter(({ payload }) => payload?.startsWith(from)).map(({ payload }) => Number(payload?.split(" ")[1]));
        assert.deepEqual(arrived, sent);
      }
      await append(store, owned, { consumed: 100, next: released() });
      assert.deepEqual(await claimedIds(store), []);
    }),

    runCase("mail by run id, mail by several tokens, and an entry of the owner, all for one run in one turn", async (scene) => {
      const store = await scene.store();
      const tokens = numbers(8).map((i) => `token ${i}`);
      const owned = await begin(store, { first: firstOf({ hooks: tokens.map((token) => hookOf(token)) }) });
      const [appended, ...sent] = await Promise.all([
        submit(store, appendOf(owned, { events: "in between" })),
        ...tokens.map((token) => submit(store, sendOf({ to: { token }, payload: token }))),
        submit(store, sendOf({ payload: "by run" })),
      ]);
      expectAnswer(appended, "appended");
      assert.deepEqual(count(sent.map(({ kind }) => kind)), { sent: 9 });
      const { run, mail, journal } = await picture(store, "run");
      assert.deepEqual(
        mail.map(({ seq }) => seq),
        numbers(9),
      );
      assert.deepEqual(mail.map(({ payload }) => payload).sort(), ["by run", ...tokens].sort());
      assert.deepEqual([run?.mail, run?.owner, journal[1]?.events], [9, owned.owner, "in between"]);
    }),
  ],
};
