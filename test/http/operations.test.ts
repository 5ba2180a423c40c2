import { open, operation, type Store } from "onceflow";
import { serveOperation } from "onceflow/http";
import { EffectLedger } from "onceflow/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { callsIn } from "../kit/effects.js";
import { gate } from "../kit/gate.js";
import { asked, problemIn } from "./requests.js";

let store: Store;
let effects: EffectLedger;
beforeEach(async () => {
  store = await open("memory:");
  effects = new EffectLedger({ honoursKeys: false });
});
afterEach(() => store.close());

describe("a shared operation", () => {
  interface Charge {
    readonly order: string;
    readonly amount: number;
  }
  const charge = () =>
    operation({
      name: "charge",
      scope: () => "tenant",
      key: ({ order }: Charge) => order,
      fingerprint: ({ amount }) => ({ amount }),
      run: ({ order, amount }, { number, effectKey }) => {
        effects.call(effectKey, { attempt: number, result: undefined });
        return { order, amount, call: effects.rawCalls(effectKey) };
      },
    });
  const body = (amount: number) => JSON.stringify({ order: "o-1", amount });
  const input = async (request: Request) => (await request.json()) as Charge;

  test("is executed once by two routes and a direct call", async () => {
    const shared = charge();
    const v1 = serveOperation(shared, { store, input });
    const v2 = serveOperation(shared, {
      store,
      input,
      respond: ({ order, call }) => Response.json({ data: { order, call } }, { status: 201 }),
    });
    const first = await v1(asked({ body: body(1), url: "http://shop.test/v1/charges" }));
    expect([first.status, first.headers.get("idempotent-replayed"), await first.json()]).toEqual([
      200,
      null,
      { order: "o-1", amount: 1, call: 1 },
    ]);
    const second = await v2(asked({ body: body(1), url: "http://shop.test/v2/charges" }));
    expect([second.status, second.headers.get("idempotent-replayed"), await second.json()]).toEqual([
      201,
      "true",
      { data: { order: "o-1", call: 1 } },
    ]);
    // A consumer calls it like this.
    expect((await shared.once(store, { order: "o-1", amount: 1 })).status).toBe("replayed");
    const other = await v1(asked({ body: body(2) }));
    expect([other.status, await problemIn(other)]).toEqual([422, "mismatch"]);
    expect(callsIn(effects)).toBe(1);
  });

  test("with another name or another scope is another operation", async () => {
    const options = { key: ({ order }: Charge) => order, run: () => effects.call("x", { result: null }) };
    for (const made of [
      charge(),
      operation({ ...options, name: "refund" }),
      operation({ ...options, name: "charge", scope: () => "other" }),
    ])
      expect((await made.once(store, { order: "o-1", amount: 1 })).status).toBe("executed");
    expect(() => operation({ ...options, name: "" })).toThrow(/^name:/);
    expect(() => operation({ ...options, name: "a", key: "k" as never })).toThrow(/^key:/);
  });

  test("gives a duplicate in flight 409, returns a response that `input` returns, and throws the error that `run` throws", async () => {
    const began = gate();
    let open = () => {};
    const opened = new Promise<void>((go) => {
      open = go;
    });
    const slow = operation({
      name: "slow",
      key: ({ order }: Charge) => order,
      run: () => {
        began.open();
        return opened.then(() => Promise.reject(new Error("broken")));
      },
    });
    const handler = serveOperation(slow, { store, input });
    const first = handler(asked({ body: body(1) }));
    const gone = expect(first).rejects.toThrow("broken");
    await began.opened;
    const duplicate = await handler(asked({ body: body(1) }));
    expect([duplicate.status, duplicate.headers.get("retry-after"), await problemIn(duplicate)]).toEqual([409, "1", "in-flight"]);
    open();
    await gone;
    const picky = serveOperation(slow, { store, input: () => new Response(null, { status: 400 }) });
    expect((await picky(asked())).status).toBe(400);
  });
});
