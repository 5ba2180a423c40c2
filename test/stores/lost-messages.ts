import { inspect, key as keyOf, NotKnownError, once, type Store } from "onceflow";
import type { Begin, Settle } from "onceflow/store";
import type { CuttingProxy } from "onceflow/testing";
import { expect, test } from "vitest";
import { beginOf } from "../../src/testing/contract/ledger/operations.js";

export interface Broken {
  readonly store: Store;
  readonly proxy: CuttingProxy;
  /** A new key in every test. */
  readonly key: string;
}

/** The lost message: the request, before the server reads it, or the server's reply. */
export const lostThings = ["request", "reply"] as const;

export function beginIn({ key }: Pick<Broken, "key">, owner: string): Begin {
  return beginOf({ key, owner, effect: "atMostOnce", leaseMs: 10_000 });
}

/** The tests that all stores with a server share, behind a proxy that cuts connections. `resends`: the driver retries by itself. */
export function testLostMessages(what: (typeof lostThings)[number], broken: () => Broken, { resends = false } = {}): void {
  /** Expects that the first send throws NotKnownError, and sends again. A driver that resends does both by itself. */
  async function lost<T>(send: () => Promise<T>): Promise<T> {
    if (resends) return await send();
    await expect(send()).rejects.toThrow(NotKnownError);
    return await send();
  }

  test(`a begin whose ${what} is lost has started once when it is sent again`, async () => {
    const { store, proxy, key } = broken();
    const before = proxy.cuts;
    proxy.cutNext(what);
    expect(await lost(() => store.commit({ ledger: beginIn({ key }, "me") }))).toMatchObject({ kind: "started", attempt: 1 });
    expect(proxy.cuts).toBe(before + 1);
    expect(await store.commit({ ledger: beginIn({ key }, "another") })).toMatchObject({ kind: "running", attempt: 1 });
  });

  test(`a settle whose ${what} is lost has settled once when it is sent again`, async () => {
    const { store, proxy, key } = broken();
    await store.commit({ ledger: beginIn({ key }, "me") });
    const to = { state: "completed", outcome: "1" } as const;
    const settle: Settle = { verb: "settle", scope: "", key, owner: "me", attempt: 1, to, note: null };
    proxy.cutNext(what);
    expect(await lost(() => store.commit({ ledger: settle }))).toEqual({ kind: "settled" });
    expect((await inspect(store, { key }))?.value).toBe(1);
  });

  test(`once calls the handler once if the ${what} of its begin and the ${what} of its settle are lost`, async () => {
    const { store, proxy, key } = broken();
    let calls = 0;
    const before = proxy.cuts;
    proxy.cutNext(what);
    const result = await once(store, { key: keyOf.of(key), effect: "atMostOnce" }, () => {
      calls += 1;
      proxy.cutNext(what);
      return "done";
    });
    expect(result).toMatchObject({ status: "executed", value: "done", attempt: 1 });
    expect([calls, proxy.cuts - before]).toEqual([1, 2]);
    expect((await inspect(store, { key }))?.attempts).toHaveLength(1);
  });
}
