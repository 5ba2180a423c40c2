import { FatalError, getStepMetadata, step, workflow } from "onceflow/workflow";
import { getRun, readOperatorLog, retryRun, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { takeTurns } from "../../kit/heavy.js";
import { Program } from "../../kit/program.js";
import { durableStores, onStores } from "../../kit/scene.js";
import type { RetryDoom } from "../programs/operator.js";
import { untilReleased, untilStatus } from "../scene.js";

takeTurns();

/** The retry of a parent and of its child are two commits. What the store has when the operator's process dies at each of their writes. */
const points = [
  { nth: 1, point: "before", parent: "failed", child: "failed", logged: 0 },
  { nth: 1, point: "after", parent: "running", child: "failed", logged: 1 },
  { nth: 2, point: "before", parent: "running", child: "failed", logged: 1 },
  { nth: 2, point: "after", parent: "completed", child: "completed", logged: 2 },
] as const;

onStores("the retry of a parent and its child, by a process that is killed", durableStores, (test) => {
  for (const { nth, point, parent: ofParent, child: ofChild, logged } of points)
    test(`${point} write ${nth}, and then the same action again`, async ({ scene }) => {
      const bank = { isDown: true, calls: [] as string[] };
      const charge = step("charge", async () => {
        bank.calls.push(getStepMetadata().stepId);
        if (bank.isDown) throw new FatalError("the bank is down");
        return "charged";
      });
      const child = workflow(scene.name("child"), async () => await charge());
      const parent = workflow(scene.name("parent"), async () => await (await start(child, [], { id: "c-1" })).returnValue);
      const { store } = await scene.work({ workflows: [child, parent] });
      await start(parent, [], { id: "p-1", store });
      await untilStatus(store, "p-1", "failed");
      bank.isDown = false;
      const doom: RetryDoom = { url: scene.url, run: "p-1", actionId: "a-1", nth, point };
      const { signal, stderr } = await new Program("workflow/programs/operator", [JSON.stringify(doom)], { onEnd: () => {} }).ended;
      expect(signal, stderr).toBe("SIGKILL");
      await untilStatus(store, "p-1", ofParent);
      await untilReleased(store, "p-1");
      await untilStatus(store, "c-1", ofChild);
      expect(await readOperatorLog({ store })).toHaveLength(logged);
      expect(await retryRun("p-1", { store, actionId: "a-1" })).toMatchObject({ repeated: logged > 0, children: ["c-1"] });
      expect(await getRun("p-1", { store }).returnValue).toBe("charged");
      // One call that failed, and one that was applied, under one key.
      expect([bank.calls.length, new Set(bank.calls).size]).toEqual([2, 1]);
      expect((await readOperatorLog({ store })).map(({ runId }) => runId)).toEqual(["c-1", "p-1"]);
    });
});
