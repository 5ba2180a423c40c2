import { inspect } from "onceflow";
import { describe, expect, test } from "vitest";
import { effort } from "../kit/effort.js";
import type { ClientCall } from "./client-process.js";
import { languages, titleOf } from "./languages.js";
import { clientScene } from "./scene.js";

describe.for(languages)("the client of", (language) => {
  const { name, program } = language;

  describe.skipIf(!program.ok)(titleOf(language), () => {
    test("duplicates one after the other: one effect, and the same value", async () => {
      const scene = await clientScene({ language });
      const call = { scope: "shop", key: "charge:order-1", input: { amount: 10, to: ["ä", "日本", null, true] } };
      const [first, second] = await scene.run([call, call]);
      const [third] = await scene.run([call]);
      expect(first).toMatchObject({ status: "executed", attempt: 1, value: { id: expect.stringContaining("effect-") } });
      expect(second).toEqual({ ...first, status: "replayed" });
      expect(third).toEqual({ ...first, status: "replayed" });
      expect(scene.effectsOf(call)).toEqual({ applied: 1, calls: 1 });
      const record = await inspect(scene.store, { scope: "shop", key: call.key });
      expect(record).toMatchObject({ state: "completed", value: first?.value });
    });

    test("20 duplicates at the same time: one effect, and one value for all", async () => {
      const scene = await clientScene({ language });
      const call = { key: "charge:order-1", input: { amount: 10 } };
      const processes = effort({ quick: 1, full: 3 });
      const plans = Array.from({ length: processes }, () =>
        scene.run(
          Array.from({ length: 20 }, () => call),
          { parallel: true },
        ),
      );
      const lines = (await Promise.all(plans)).flat();
      expect(lines.length).toBe(20 * processes);
      expect(lines.filter(({ status }) => status === "executed").length).toBe(1);
      expect(lines.filter(({ status }) => status === "replayed").length).toBe(20 * processes - 1);
      expect(new Set(lines.map(({ value }) => JSON.stringify(value))).size).toBe(1);
      expect(scene.effectsOf(call)).toEqual({ applied: 1, calls: 1 });
    });

    test("another input under the same key is a mismatch; another order of members, another scope are not", async () => {
      const scene = await clientScene({ language });
      const key = "charge:order-1";
      const calls: ClientCall[] = [
        { key, input: { amount: 10, currency: "EUR" } },
        { key, input: { currency: "EUR", amount: 10.0 } },
        { key, input: { amount: 11, currency: "EUR" } },
        { key, fingerprint: "other" },
        { key, scope: "other", input: { amount: 11 } },
      ];
      const lines = await scene.run(calls);
      expect(lines.map(({ status, error }) => status ?? error)).toEqual(["executed", "replayed", "MISMATCH", "MISMATCH", "executed"]);
      expect(scene.effectsOf({ key })).toEqual({ applied: 1, calls: 1 });
      expect(scene.effectsOf({ key, scope: "other" })).toEqual({ applied: 1, calls: 1 });
    });

    test("a handler that fails: the next call runs it again, replays the failure, or gets an unknown outcome, by class and option", async () => {
      const scene = await clientScene({ language });
      const failing: readonly ClientCall[] = [
        { key: "idempotent", does: "fail" },
        { key: "kept", does: "fail", keepFailures: true },
        { key: "strict", does: "fail", effect: "atMostOnce" },
        { key: "refused", does: "notApplied", effect: "atMostOnce" },
      ];
      const lines = await scene.run(failing.flatMap((call) => [call, { ...call, does: "effect" }]));
      expect(lines).toMatchObject([
        { error: "DECLINED", message: "the card was declined" },
        { status: "executed", attempt: 2 },
        { error: "DECLINED" },
        { error: "OPERATION_FAILED", attempt: 1, message: expect.stringContaining("the card was declined") },
        { error: "DECLINED" },
        { error: "UNKNOWN_OUTCOME", attempt: 1, retryable: false },
        { error: "NOT_APPLIED" },
        { status: "executed", attempt: 2 },
      ]);
      expect(scene.effectsOf({ key: "strict" })).toEqual({ applied: 1, calls: 1 });
      const log = await inspect(scene.store, { key: "strict" });
      expect(log).toMatchObject({ state: "unknown", attempts: [{ verdict: "unknown" }] });
      expect(JSON.stringify(log), "the note names the error, and not its message").not.toContain("the card was declined");
    });

    test.skipIf(name !== "Go")("a handler that panics is settled like one that fails, and the panic goes on", async () => {
      const scene = await clientScene({ language });
      const call = { key: "panics", does: "panic", effect: "atMostOnce" } as const;
      const lines = await scene.run([call, call]);
      expect(lines.map(({ error }) => error)).toEqual(["PANIC", "UNKNOWN_OUTCOME"]);
      expect(scene.effectsOf(call)).toEqual({ applied: 1, calls: 1 });
    });

    test("another caller runs the key: the client waits for its outcome, or raises after its bound", async () => {
      const scene = await clientScene({ language });
      const call = { key: "slow", waitMs: 60_000 };
      const held = scene.proxy.hold("/effects", "reply");
      const first = scene.start([call]);
      await held.arrived;
      const [running] = await scene.run([{ ...call, waitMs: 0 }]);
      expect(running).toMatchObject({ error: "RUNNING", attempt: 1, retryable: true });
      const waiting = scene.start([call]);
      held.release();
      expect(await first.lines).toMatchObject([{ status: "executed" }]);
      expect(await waiting.lines).toMatchObject([{ status: "replayed" }]);
      expect(scene.effectsOf(call)).toEqual({ applied: 1, calls: 1 });
    });

    test("keys with dots, slashes, percent signs and all of Unicode are keys of their own; others are refused before a request", async () => {
      const scene = await clientScene({ language });
      const keys = [
        "..",
        "../..",
        "%2f",
        "/",
        "a/b?c#d",
        "%00",
        "key with spaces",
        "schlüssel-日本-🙂",
        "\u00e9",
        "e\u0301",
        "'; drop table",
        "x".repeat(512),
      ];
      const good = [...keys, ...keys].map((key): ClientCall => ({ key, scope: "..", input: key }));
      const bad = ["", "a\nb", "a\r\nx-other: 1", "\u0000", "x".repeat(513), "é".repeat(257)].map((key): ClientCall => ({ key }));
      const scopes = ["a\nb", "x".repeat(513)].map((scope): ClientCall => ({ key: "k", scope }));
      const lines = await scene.run([...good, ...bad, ...scopes]);
      expect(lines.map(({ status, error }) => status ?? error)).toEqual([
        ...keys.map(() => "executed"),
        ...keys.map(() => "replayed"),
        ...[...bad, ...scopes].map(() => "INVALID_INPUT"),
      ]);
      for (const key of keys) expect(scene.effectsOf({ key, scope: ".." })).toEqual({ applied: 1, calls: 1 });
      expect(scene.proxy.requests.filter((path) => path.endsWith("/begin")).length).toBe(good.length);
    });

    test("values that JSON cannot hold: an input is refused, a result does not undo the effect; null is a result", async () => {
      const scene = await clientScene({ language, bodyBytesMax: 1024 * 1024 });
      const calls: readonly ClientCall[] = [
        { key: "large", input: 2 ** 60 },
        { key: "notJson", does: "notJson", effect: "atMostOnce" },
        { key: "long", does: "long", effect: "atMostOnce" },
        { key: "null", result: null },
      ];
      const lines = await scene.run(calls.flatMap((call) => [call, call]));
      expect(lines).toMatchObject([
        { error: "INVALID_INPUT" },
        { error: "INVALID_INPUT" },
        { status: "executed", attempt: 1 },
        { error: "RESULT_NOT_KEPT", attempt: 1, retryable: false },
        { status: "executed", attempt: 1, value: expect.stringMatching(/^x{2000000}$/) },
        { error: "RESULT_NOT_KEPT", attempt: 1, retryable: false },
        { status: "executed", value: null },
        { status: "replayed", value: null },
      ]);
      for (const { key } of calls) expect(scene.effectsOf({ key }).calls).toBe(key === "large" ? 0 : 1);
    });
  });
});
