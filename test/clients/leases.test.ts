import { inspect } from "onceflow";
import { describe, expect, test } from "vitest";
import { sample } from "../kit/effort.js";
import { until } from "../kit/until.js";
import type { ClientCall } from "./client-process.js";
import { languages, titleOf } from "./languages.js";
import { clientScene } from "./scene.js";

const leaseMs = 300;
const begin = "/onceflow/keys/begin";
const renew = "/onceflow/keys/renew";
const settle = "/onceflow/keys/settle";

describe.for(languages)("the client of", (language) => {
  const { program } = language;

  describe.skipIf(!program.ok)(titleOf(language), () => {
    test("a handler that runs for longer than its lease keeps it", async () => {
      const scene = await clientScene({ language });
      const call: ClientCall = { key: "charge:order-1", leaseMs: 3000, waitMs: 120_000 };
      const held = scene.proxy.hold("/effects", "reply");
      const first = scene.start([call]);
      await held.arrived;
      const second = scene.start([call]);
      const renewals = () => scene.proxy.requests.filter((path) => path === renew).length;
      await until("the lease has been renewed for longer than its length", () => renewals() >= 4);
      held.release();
      expect(await first.lines).toMatchObject([{ status: "executed", attempt: 1 }]);
      expect(await second.lines).toMatchObject([{ status: "replayed", attempt: 1 }]);
      expect(scene.effectsOf(call)).toEqual({ applied: 1, calls: 1 });
    });

    test("the reply to the begin comes after the lease: it is renewed before the handler runs", async () => {
      const scene = await clientScene({ language });
      const call: ClientCall = { key: "charge:order-1", effect: "atMostOnce", leaseMs };
      const held = scene.proxy.hold(begin, "reply");
      const client = scene.start([call]);
      await held.arrived;
      await until("the lease has expired", async () => (await inspect(scene.store, { key: call.key }))?.state === "unknown");
      held.release();
      expect(await client.lines).toMatchObject([{ status: "executed", attempt: 1 }]);
      expect(scene.proxy.requests.slice(0, 3)).toEqual([begin, renew, "/effects"]);
      expect(scene.effectsOf(call)).toEqual({ applied: 1, calls: 1 });
    });

    test("the reply to the begin comes after another client took over: the handler does not run", async () => {
      const scene = await clientScene({ language });
      const call: ClientCall = { key: "charge:order-1", leaseMs, waitMs: 120_000 };
      const held = scene.proxy.hold(begin, "reply");
      const first = scene.start([call]);
      await held.arrived;
      expect(await scene.run([call])).toMatchObject([{ status: "executed", attempt: 2 }]);
      held.release();
      expect(await first.lines).toMatchObject([{ status: "replayed", attempt: 2 }]);
      expect(scene.effectsOf(call)).toEqual({ applied: 1, calls: 1 });
    });

    test("the server is away for longer than the lease while the handler runs: the handler sees it, and the settle is accepted later", async () => {
      const scene = await clientScene({ language });
      const call: ClientCall = { key: "charge:order-1", leaseMs, does: "waitLost" };
      const held = scene.proxy.hold("/effects", "reply");
      const client = scene.start([call]);
      await held.arrived;
      const { apiPort } = scene.proxy;
      scene.proxy.apiPort = 1;
      held.release();
      await until("a settle has failed", () => scene.proxy.requests.includes(settle));
      scene.proxy.apiPort = apiPort;
      expect(await client.lines).toMatchObject([{ lost: true }, { status: "executed", attempt: 1 }]);
    });

    test.for(sample(["waitLost", "check"] as const, 2))(
      "stopped for longer than its lease: %s sees it, and its settle is refused",
      async (does) => {
        const scene = await clientScene({ language });
        const call: ClientCall = { key: "charge:order-1", leaseMs, waitMs: 120_000 };
        const held = scene.proxy.hold("/effects", "reply");
        const first = scene.start([{ ...call, does }]);
        await held.arrived;
        first.child.kill("SIGSTOP");
        const [second] = await scene.run([{ ...call, result: "second" }]);
        expect(second).toMatchObject({ status: "executed", attempt: 2, value: "second" });
        first.child.kill("SIGCONT");
        held.release();
        const lost = { error: "LEASE_LOST", attempt: 1, retryable: true };
        expect(await first.lines).toMatchObject(does === "waitLost" ? [{ lost: true }, lost] : [lost]);
        const record = await inspect(scene.store, { key: call.key });
        expect(record).toMatchObject({ value: "second", attempts: [{ verdict: "lapsed" }, { verdict: "completed" }] });
        expect(scene.effectsOf(call)).toEqual({ applied: 2, calls: 2 });
      },
    );

    test("stopped for longer than its lease while no other client came: its late settle is accepted", async () => {
      const scene = await clientScene({ language });
      const call: ClientCall = { key: "charge:order-1", effect: "atMostOnce", leaseMs };
      const held = scene.proxy.hold("/effects", "reply");
      const first = scene.start([call]);
      await held.arrived;
      first.child.kill("SIGSTOP");
      await until("the lease has expired", async () => (await inspect(scene.store, { key: call.key }))?.state === "unknown");
      first.child.kill("SIGCONT");
      held.release();
      expect(await first.lines).toMatchObject([{ status: "executed", attempt: 1 }]);
      expect(await inspect(scene.store, { key: call.key })).toMatchObject({ state: "completed", attempt: 1 });
    });
  });
});
