import assert from "node:assert/strict";
import type { OutgoingMail } from "../../../core/runs/operation.js";
import type { ContractGroup } from "../contract-case.js";
import { picture, runCase, takenOver, timeOf, unchanged } from "./run-case.js";
import {
  append,
  appendOf,
  begin,
  claimedIds,
  create,
  ended,
  expectAnswer,
  firstOf,
  play,
  released,
  runOf,
  startOf,
  submit,
} from "./run-operations.js";

const cancelOf = (run: string, fields: Partial<OutgoingMail> = {}): OutgoingMail => ({
  to: { run },
  kind: "cancel",
  about: null,
  payload: '{"reason":"parent"}',
  key: "cancel by parent",
  ...fields,
});

export const sendingOut: ContractGroup = {
  verb: "outgoing",
  cases: [
    runCase("mail of an entry is delivered with the entry, and wakes its run", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const id of ["a", "b"]) await append(store, await begin(store, { id }), { next: released() });
      await begin(store, { id: "owned" });
      const entry = appendOf(await begin(store), { outgoing: ["a", "b", "owned"].map((id) => cancelOf(id)) });
      const { now } = expectAnswer(await submit(store, entry), "appended");
      for (const id of ["a", "b", "owned"]) {
        const { run, mail } = await picture(other, id);
        assert.deepEqual(mail, [{ seq: 1, kind: "cancel", about: null, payload: '{"reason":"parent"}', at: now }]);
        assert.equal(run?.mail, 1);
      }
      assert.deepEqual(await claimedIds(other), ["a", "b"]);
    }),

    runCase(
      "mail of an entry that cancels a run says when that run can be ended without its code; an earlier time stays",
      async (scene) => {
        const [store, other] = [await scene.store(), await scene.open()];
        await create(store, { id: "child" });
        const { now } = expectAnswer(
          await submit(store, appendOf(await begin(store), { outgoing: [cancelOf("child", { stopAfterMs: 50 })] })),
          "appended",
        );
        assert.equal((await runOf(other, "child")).stopAt, now + 50);
        const later = cancelOf("child", { stopAfterMs: 60_000, key: "another parent" });
        expectAnswer(await submit(store, appendOf(await begin(store, { id: "other" }), { outgoing: [later] })), "appended");
        assert.equal((await runOf(other, "child")).stopAt, now + 50);
      },
    ),

    runCase("mail to a run that has ended or does not exist is dropped, and the entry is written", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await play(store, { id: "over" });
      await create(store, { id: "open" });
      const owned = await begin(store);
      const outgoing = ["over", "missing", "open"].map((id) => cancelOf(id));
      await unchanged(store, ["over", "missing"], () => append(store, owned, { outgoing, next: ended() }));
      assert.deepEqual([(await runOf(other)).status, (await runOf(other, "open")).mail], ["completed", 1]);
    }),

    runCase("the same entry sent again, and mail with a known key, deliver nothing twice", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await create(store, { id: "child" });
      const owned = await begin(store);
      const asked = appendOf(owned, { outgoing: [cancelOf("child")] });
      expectAnswer(await submit(store, asked), "appended");
      for (const handle of [store, other]) expectAnswer(await unchanged(store, ["run", "child"], () => submit(handle, asked)), "appended");
      const later = await append(store, { ...owned, seq: 2 }, { outgoing: [cancelOf("child"), cancelOf("child", { key: "second" })] });
      assert.deepEqual([later.seq, (await runOf(store, "child")).mail], [3, 2]);
    }),

    runCase("an entry that is refused delivers nothing", async (scene) => {
      const store = await scene.store();
      await create(store, { id: "child", workflow: "child's" });
      const { late, next } = await takenOver(scene, store);
      await append(store, next);
      for (const fields of [{}, { events: null }, { next: released() }, { next: ended() }]) {
        const refuse = () => submit(store, appendOf(late, { ...fields, outgoing: [cancelOf("child")] }));
        expectAnswer(await unchanged(store, ["run", "child"], refuse), "overtaken");
      }
    }),

    runCase("an entry may send mail to children that it starts, in any kind of entry", async (scene) => {
      const store = await scene.store();
      const outgoing = (id: string) => [cancelOf(id)];
      const first = firstOf({ children: [startOf({ id: "first", parent: "run" })], outgoing: outgoing("first") });
      const owned = await begin(store, { first });
      const children = [startOf({ id: "second", parent: "run" })];
      await append(store, owned, { children, outgoing: outgoing("second"), next: released({ wakeAt: (await timeOf(store)) + 60_000 }) });
      for (const id of ["first", "second"])
        assert.deepEqual([(await runOf(store, id)).mail, (await runOf(store, id)).status], [1, "pending"]);
    }),

    runCase("without events, an entry delivers its mail if its owner still has the run", async (scene) => {
      const store = await scene.store();
      await create(store, { id: "child" });
      const owned = await begin(store);
      expectAnswer(await submit(store, appendOf(owned, { events: null, outgoing: [cancelOf("child")] })), "appended");
      assert.deepEqual([(await runOf(store, "child")).mail, (await store.runs.journal("run", 0, 10)).length], [1, 1]);
    }),
  ],
};
