import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { getRun } from "onceflow/workflow/api";
import { expect } from "vitest";
import { type StreamDeath, type StreamPart, type StreamSaid, streamDeaths, streamed } from "../programs/stream-process.js";
import { durableStores, onStores, type Scene } from "../scene.js";

const program = new URL("../../../.build/test/workflow/programs/stream-process.js", import.meta.url);

function play(scene: Scene, part: Omit<StreamPart, "url">): ChildProcess {
  const stdio = ["ignore", "inherit", "inherit", "ipc"] as const;
  const child = fork(program, [JSON.stringify({ ...part, url: scene.url } satisfies StreamPart)], { execArgv: [], stdio: [...stdio] });
  scene.onEnd(() => child.kill("SIGKILL"));
  return child;
}

/** Whose attempt of `talk` counts: dead before its result was committed, it is the second one's. */
const talked = (death: StreamDeath) =>
  death === "before write" || death === "after write" || death === "before done"
    ? ["talk 2:0", "talk 2:1", "talk 2:2"]
    : ["talk 1:0", "talk 1:1", "talk 1:2", "talk 1:3", "talk 1:4"];

onStores("streams of processes that die", durableStores, (test) => {
  for (const death of streamDeaths)
    test(`${death} is committed: each chunk of what counts once, in order, for whoever reads in another process`, async ({ scene }) => {
      const id = `run ${death}`;
      const worker = play(scene, { id, does: "work", dies: death });
      const [, signal] = (await once(worker, "exit")) as [number | null, string | null];
      expect(signal).toBe("SIGKILL");
      const reader = play(scene, { id, does: "read" });
      const heard: unknown[] = [];
      const over = new Promise<void>((resolve) => {
        reader.on("message", (said: StreamSaid) => ("got" in said ? heard.push(said.got) : resolve()));
      });
      const { store } = await scene.work({ workflows: [streamed] as never });
      await getRun(id, { store }).returnValue;
      await over;
      const chunks: unknown[] = [];
      for await (const chunk of getRun(id, { store }).readable) chunks.push(chunk);
      expect(chunks).toEqual(["hello", ...talked(death), "between", "bye"]);
      // It may have passed a place before the second attempt came to it: then it has seen what the first one wrote there.
      const places = heard.filter((one) => !String(one).startsWith("talk"));
      expect(places).toEqual(["hello", "between", "bye"]);
      expect(new Set(heard).size).toBe(heard.length);
      if (talked(death).length === 5) expect(heard).toEqual(chunks);
    });
});
