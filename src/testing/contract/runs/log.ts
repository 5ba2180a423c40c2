import assert from "node:assert/strict";
import type { LogEntry } from "../../../core/runs/log.js";
import type { ContractGroup } from "../contract-case.js";
import { plain, runCase } from "./run-case.js";
import { act, actOf, begin, create, expectAnswer, mailing, numbers, submit } from "./run-operations.js";

const idsOf = (entries: readonly LogEntry[]) => entries.map(({ id }) => id);

export const logging: ContractGroup = {
  verb: "log",
  cases: [
    runCase("the log has the newest action first, with increasing numbers", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await create(store);
      const entries: LogEntry[] = [];
      for (const i of numbers(5)) entries.push(await act(i % 2 === 0 ? store : other, mailing(), {}, { id: `action ${6 - i}` }));
      assert.deepEqual(
        plain(await other.runs.log({ limit: 10 })),
        entries.toReversed().map((entry) => ({ ...entry })),
      );
      for (const [i, { no, at }] of entries.entries()) {
        const before = entries[i - 1];
        assert.ok(before === undefined || (no > before.no && at >= before.at));
      }
    }),

    runCase("the log is filtered by subject, id and position, and limited", async (scene) => {
      const store = await scene.store();
      for (const id of ["a", "b"]) await create(store, { id });
      for (const i of numbers(6)) await act(store, mailing(), { id: i % 2 === 0 ? "a" : "b" }, { id: `action ${i}` });
      const log = await store.runs.log({ limit: 100 });
      assert.deepEqual(idsOf(await store.runs.log({ subject: "a", limit: 100 })), ["action 6", "action 4", "action 2"]);
      assert.deepEqual(idsOf(await store.runs.log({ subject: "a", limit: 2 })), ["action 6", "action 4"]);
      const [, second] = log;
      assert.ok(second);
      assert.deepEqual(idsOf(await store.runs.log({ before: second.no, limit: 2 })), ["action 4", "action 3"]);
      assert.deepEqual(idsOf(await store.runs.log({ subject: "b", before: second.no, limit: 100 })), ["action 3", "action 1"]);
      assert.deepEqual(idsOf(await store.runs.log({ id: "action 3", limit: 100 })), ["action 3"]);
      assert.deepEqual(await store.runs.log({ id: "action 3", subject: "a", limit: 100 }), []);
      assert.deepEqual(await store.runs.log({ id: "missing", limit: 100 }), []);
    }),

    runCase("an entry has its texts unchanged, and no members of the driver", async (scene) => {
      const store = await scene.store();
      await begin(store);
      const log = {
        id: "$id.1",
        actor: "Zoë",
        action: "$wake",
        subject: "run",
        reason: "line 1\nline 2 \u{1F980}",
        detail: '{"a":"\\u0000"}',
      };
      const asked = actOf(mailing(), {}, log);
      const { entry } = expectAnswer(await submit(store, asked), "acted");
      const [read] = await store.runs.log({ limit: 1 });
      assert.ok(read);
      for (const one of [entry, read, expectAnswer(await submit(store, asked), "acted").entry]) {
        assert.deepEqual(Object.keys(one).sort(), ["action", "actor", "at", "detail", "id", "no", "reason", "subject"]);
        assert.deepEqual({ ...one }, { ...log, no: entry.no, at: entry.at });
      }
    }),

    runCase("actions on many runs at the same time are all logged, each with its own number", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const ids = numbers(20).map((i) => `run ${i}`);
      await Promise.all(ids.map((id) => create(store, { id })));
      const entries = await Promise.all(ids.map((id, i) => act(i % 2 === 0 ? store : other, mailing(), { id })));
      assert.equal(new Set(entries.map(({ no }) => no)).size, ids.length);
      const log = await store.runs.log({ limit: 100 });
      assert.deepEqual(
        log.map(({ no }) => no),
        entries.map(({ no }) => no).sort((a, b) => b - a),
      );
    }),
  ],
};
