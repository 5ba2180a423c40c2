import { getRun } from "onceflow/workflow/api";
import { expect } from "vitest";
import { Program } from "../../kit/program.js";
import { durableStores, onStores, type Scene } from "../../kit/scene.js";
import { type StreamDeath, type StreamPart, type StreamSaid, streamDeaths, streamed } from "../programs/stream-process.js";

function start(scene: Scene, part: Omit<StreamPart, "url">): Program<StreamSaid> {
  const args = [JSON.stringify({ ...part, url: scene.url } satisfies StreamPart)];
  return new Program("workflow/programs/stream-process", args, { onEnd: (end) => scene.onEnd(end) });
}

/** All chunks that a reader in another process got, up to the end of the stream. */
async function chunksOf(reader: Program<StreamSaid>): Promise<unknown[]> {
  const chunks: unknown[] = [];
  for (let chunk = await reader.next(); "got" in chunk; chunk = await reader.next()) chunks.push(chunk.got);
  return chunks;
}

/** The attempt of `talk` that counts: the second one, if the process died before the first one's result was committed. */
const talked = (death: StreamDeath) =>
  death === "before write" || death === "after write" || death === "before done"
    ? ["talk 2:0", "talk 2:1", "talk 2:2"]
    : ["talk 1:0", "talk 1:1", "talk 1:2", "talk 1:3", "talk 1:4"];

onStores("streams of processes that die", durableStores, (test) => {
  for (const death of streamDeaths)
    test(`killed ${death}: a reader in another process gets each chunk of the attempt that counts once, in order`, async ({ scene }) => {
      const id = `run ${death}`;
      const { signal, stderr } = await start(scene, { id, does: "work", dies: death }).ended;
      expect(signal, stderr).toBe("SIGKILL");
      const reading = chunksOf(start(scene, { id, does: "read" }));
      const { store } = await scene.work({ workflows: [streamed] as never });
      await getRun(id, { store }).returnValue;
      const heard = await reading;
      const chunks: unknown[] = [];
      for await (const chunk of getRun(id, { store }).readable) chunks.push(chunk);
      expect(chunks).toEqual(["hello", ...talked(death), "between", "bye"]);
      // The reader may have passed an index before the second attempt reached it: then it has the chunk of the first attempt.
      const places = heard.filter((one) => !String(one).startsWith("talk"));
      expect(places).toEqual(["hello", "between", "bye"]);
      expect(new Set(heard).size).toBe(heard.length);
      if (talked(death).length === 5) expect(heard).toEqual(chunks);
    });
});
