import assert from "node:assert/strict";
import { NotApplied } from "../../../core/errors/errors.js";
import { inspect } from "../../../core/ledger/inspect.js";
import { list } from "../../../core/ledger/list.js";
import type { OnceResult } from "../../../core/ledger/once.js";
import type { OnceOptions } from "../../../core/ledger/options.js";
import { type EffectClass, effectClasses, type State } from "../../../core/ledger/record.js";
import type { Store } from "../../../core/store/store.js";
import { type ContractGroup, contractCase } from "../contract-case.js";
import { type Asked, once } from "./once.js";
import { beginOf, expectKind, free, idOf, send, startAndSettle, unknown } from "./operations.js";
import { shortMs } from "./scene.js";

const again = (effect: EffectClass) => effect === "idempotent" || effect === "keyed";

/** The options of an effect class. `reconcile` always answers "unknown". */
function optionsOf(effect: EffectClass): Pick<OnceOptions, "effect" | "reconcile" | "reconcileAfterMs"> {
  return effect === "reconcile" ? { effect, reconcile: () => "unknown", reconcileAfterMs: 0 } : { effect };
}

async function runs(store: Store, key: string, effect: EffectClass): Promise<{ result: OnceResult<string>; calls: number }> {
  let calls = 0;
  const result = await once(store, { key, ...optionsOf(effect) } as Asked<string>, async () => {
    calls += 1;
    return "done";
  });
  return { result, calls };
}

/** All pairs of different effect classes. */
const differences: readonly (readonly [EffectClass, EffectClass])[] = effectClasses.flatMap((a) =>
  effectClasses.filter((b) => b !== a).map((b) => [a, b] as const),
);

export const effect: ContractGroup = {
  verb: "effect",
  cases: [
    ...effectClasses.map((effect) =>
      contractCase(`${effect}: an attempt that died is ${again(effect) ? "run again" : "unknown, and not run again"}`, async (scene) => {
        const store = await scene.store();
        const { begin } = await scene.dieAndLapse(beginOf({ effect }));
        const { result, calls } = await runs(store, begin.key, effect);
        if (again(effect)) assert.deepEqual([result.status, result.attempt, calls], ["executed", 2, 1]);
        else assert.deepEqual([result.status, result.attempt, calls], ["unknown", 1, 0]);
      }),
    ),

    ...effectClasses.map((effect) =>
      contractCase(`${effect}: after a throw the key is ${again(effect) ? "free" : "unknown"}`, async (scene) => {
        const store = await scene.store();
        const thrown = new Error("broken midway");
        const options = { key: "throws", ...optionsOf(effect) } as Asked<never>;
        await assert.rejects(
          once(store, options, () => Promise.reject(thrown)),
          thrown,
        );
        assert.equal((await scene.record({ scope: "", key: "throws" })).state, again(effect) ? "free" : "unknown");
        const { result, calls } = await runs(store, "throws", effect);
        if (again(effect)) assert.deepEqual([result.status, result.attempt, calls], ["executed", 2, 1]);
        else assert.deepEqual([result.status, result.attempt, calls], ["unknown", 1, 0]);
      }),
    ),

    ...effectClasses.map((effect) =>
      contractCase(`${effect}: after NotApplied the key is free`, async (scene) => {
        const store = await scene.store();
        const options = { key: "declined", ...optionsOf(effect) } as Asked<never>;
        await assert.rejects(
          once(store, options, () => Promise.reject(new NotApplied("declined"))),
          NotApplied,
        );
        const { result, calls } = await runs(store, "declined", effect);
        assert.deepEqual([result.status, result.attempt, calls], ["executed", 2, 1]);
      }),
    ),

    contractCase("of two classes the stricter one decides about a dead attempt, whichever came first", async (scene) => {
      const store = await scene.store();
      const ids = differences.map(([first, second]) => ({ scope: first, key: second }));
      await scene.die(...ids.map((id) => beginOf({ ...id, effect: id.scope as EffectClass, leaseMs: shortMs })));
      for (const { scope, key } of ids) {
        await scene.lapse({ scope, key });
        const mayRun = again(scope as EffectClass) && again(key as EffectClass);
        const answer = await send(store, beginOf({ scope, key, effect: key as EffectClass }));
        assert.equal(answer.kind, mayRun ? "started" : "unknown", `first ${scope}, then ${key}`);
        const strictest = effectClasses.findLast((one) => one === scope || one === key);
        if (answer.kind === "unknown") assert.equal(answer.effect, strictest);
        else assert.equal((await scene.record({ scope, key })).effect, strictest);
      }
    }),

    contractCase("the stricter class of an earlier attempt also decides what a throw means", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf({ key: "strict", effect: "atMostOnce" }), free);
      await assert.rejects(
        once(store, { key: "strict", effect: "idempotent" }, () => Promise.reject(new Error("broken midway"))),
        /broken midway/,
      );
      const { state, effect } = await scene.record({ scope: "", key: "strict" });
      assert.deepEqual([state, effect], ["unknown", "atMostOnce"]);
    }),

    contractCase("a lapsed atMostOnce record is unknown in inspect and list, although no caller has changed it", async (scene) => {
      const store = await scene.store();
      const held = await scene.dieAndLapse(beginOf({ effect: "atMostOnce" }));
      await scene.dieAndLapse(beginOf({ key: "may run again", effect: "keyed" }));
      const before = await scene.record(held.begin);
      const found = await inspect(store, idOf(held));
      assert.deepEqual([found?.state, found?.lapsed, found?.attempt], ["unknown", true, 1]);
      const listed = async (state?: State) =>
        (await list(store, state === undefined ? {} : { state })).items.map(({ key, state }) => [key, state]);
      assert.deepEqual(await listed("unknown"), [["operation", "unknown"]]);
      assert.deepEqual(await listed("running"), [["may run again", "running"]]);
      assert.deepEqual(await listed(), [
        ["may run again", "running"],
        ["operation", "unknown"],
      ]);
      const after = await scene.record(held.begin);
      assert.deepEqual(after, before);
      assert.equal(after.state, "running");
    }),

    contractCase("a live atMostOnce attempt is running, not unknown", async (scene) => {
      const store = await scene.store();
      const begin = beginOf({ effect: "atMostOnce" });
      expectKind(await send(store, begin), "started");
      expectKind(await send(store, beginOf({ effect: "atMostOnce" })), "running");
      assert.equal((await inspect(store, begin))?.state, "running");
    }),

    contractCase("an attempt of any class may settle as unknown", async (scene) => {
      const store = await scene.store();
      for (const effect of effectClasses) {
        const held = await startAndSettle(store, beginOf({ key: effect, effect }), unknown);
        const answer = expectKind(await scene.unchanged(idOf(held), () => send(store, beginOf({ key: effect, effect }))), "unknown");
        assert.deepEqual([answer.attempt, answer.effect], [1, effect]);
        const { expiresAt, goneAt } = await scene.record(held.begin);
        assert.deepEqual([expiresAt, goneAt], [null, null]);
      }
    }),
  ],
};
