import { alertOn } from "onceflow/alerts";
import { serveEffects } from "onceflow/testing";
import { step, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { sample } from "../kit/effort.js";
import { Program } from "../kit/program.js";
import { durableStores, onStores } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { untilStatus } from "../workflow/scene.js";
import { type AlertDoom, alertOptions, senderTo } from "./programs/alerter.js";

/**
 * The points at which the process that sends alerts is killed, and how often the receiver may then get each alert: twice, if one may have been sent
 * and not settled at that point.
 */
const deaths: readonly (readonly [dieAt: string, callsMax: number])[] = [
  ["before begin", 1],
  ["after begin", 1],
  ["before add", 1],
  ["after add", 1],
  ["before save", 2],
  ["after save", 2],
  ["after send", 2],
  ["before send", 1],
  ["before settle", 2],
  ["after settle", 2],
];

onStores("alerts of a process that is killed", durableStores, (test) => {
  for (const [dieAt, callsMax] of sample(deaths, 3))
    test(`"${dieAt}": the next process sends the alerts that are missing, with the same ids`, async ({ scene }) => {
      const { url: serverUrl, effects, close } = await serveEffects({ honoursKeys: true });
      scene.onEnd(close);
      const { store } = await scene.work();
      const fails = workflow(scene.name("fails"), async () => Promise.reject(new Error("broken")));
      const charge = step(scene.name("charge"), async () => Promise.reject(new Error("timeout")), { effect: "atMostOnce" });
      const doubts = workflow(scene.name("doubts"), async () => await charge());
      await start(fails, [], { id: "failed", store });
      await start(doubts, [], { id: "doubted", store });
      await untilStatus(store, "failed", "failed");
      await untilStatus(store, "doubted", "unknown");
      const doom: AlertDoom = { url: scene.url, serverUrl, dieAt };
      const { signal, stderr } = await new Program("alerts/programs/alerter", [JSON.stringify(doom)], { onEnd: (end) => scene.onEnd(end) })
        .ended;
      expect(signal, stderr).toBe("SIGKILL");
      const alerts = alertOn({ ...alertOptions, store, send: senderTo(serverUrl) });
      await until("both alerts have arrived", () => effects.keys().length === 2);
      await until("no alert is pending", async () => {
        const { due, waiting, publishing } = await alerts.outbox.pending();
        return due + waiting + publishing === 0;
      });
      // The next rounds find the same runs again.
      await start(fails, [], { id: "failed later", store });
      await until("the later alert has arrived", () => effects.keys().length === 3);
      await alerts.stop();
      expect(
        effects
          .keys()
          .map((id) => id.slice(0, 11))
          .toSorted(),
      ).toEqual(["run-failed-", "run-failed-", "run-unknown"]);
      for (const id of effects.keys()) {
        expect(effects.calls(id).length, id).toBeLessThanOrEqual(callsMax);
        expect(effects.applied(id)).toBe(1);
      }
      expect(await alerts.outbox.deadLetters()).toEqual([]);
    });
});
