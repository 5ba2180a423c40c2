import { createHmac } from "node:crypto";
import { createRuntime } from "onceflow/graph";
import { serveEffects } from "onceflow/testing";
import { expect, onTestFinished } from "vitest";
import { isFull } from "../kit/effort.js";
import { takeTurns } from "../kit/heavy.js";
import { Program } from "../kit/program.js";
import { durableStores, onStoresInTurn } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { freePort } from "../servers/process/free-port.js";

takeTurns();

onStoresInTurn("a server that dies while it receives a webhook", isFull ? durableStores : ["sqlite"], (test) => {
  for (const [death, status] of [
    ["before", "started"],
    ["after", "duplicate"],
  ] as const) {
    test(`dies ${death} the commit of the trigger: the sender repeats the event, and there is one execution`, async ({ scene }) => {
      const provider = await serveEffects({ honoursKeys: false });
      onTestFinished(() => provider.close());
      const port = await freePort();
      const startServer = async (dies: string) => {
        const program = new Program("server/programs/webhook-server", [scene.url, provider.url, String(port), dies], {
          onEnd: onTestFinished,
        });
        await program.next();
        return program;
      };
      const body = JSON.stringify({ id: "evt_1" });
      const signature = `sha256=${createHmac("sha256", "secret-of-the-sender").update(body).digest("hex")}`;
      const headers = { "content-type": "application/json", "x-hub-signature-256": signature };
      const deliver = () => fetch(`http://127.0.0.1:${port}/webhooks/payments`, { method: "POST", headers, body });

      const doomed = await startServer(death);
      await expect(deliver()).rejects.toThrow();
      expect((await doomed.ended).signal).toBe("SIGKILL");
      await startServer("never");
      const answer = await deliver();
      expect([answer.status, ((await answer.json()) as { status: string }).status]).toEqual([200, status]);

      const looking = await createRuntime({ store: await scene.open(), documents: [], work: false });
      await until("the execution has ended", async () => (await looking.executions()).every(({ status: is }) => is === "completed"));
      expect((await looking.executions()).map(({ key }) => key)).toEqual(["evt_1"]);
      expect(provider.effects.rawCalls("evt_1")).toBe(1);
    });
  }
});
