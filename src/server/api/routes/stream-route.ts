import { Run } from "../../../workflow/client/run-handle.js";
import { optional, text, wholeNumber } from "../fields.js";
import { type Route, route } from "../route.js";
import { shown } from "../values.js";
import { runFor } from "./run-lookup.js";
import { idField } from "./runs-routes.js";

export const eventHeaders = { "content-type": "text/event-stream", "x-accel-buffering": "no" };

/** The chunks of a stream of a run. */
export const streamRoute: Route = route({
  id: "readStream",
  method: "GET",
  path: "/run/stream",
  about: "Read a stream of a run until it is closed or the run ends (server-sent events; the id of an event is the index of its chunk)",
  role: "view",
  needsValues: true,
  problems: ["RUN_NOT_FOUND", "TOO_MANY_LISTENERS"],
  fields: {
    id: idField,
    name: optional(text("Name of the stream. Default: the default stream of the run", 128)),
    startIndex: optional(wholeNumber("The first index; negative: counted back from the end", -1_000_000_000, 1_000_000_000)),
  },
  answer: "events",
  run: async ({ store, caller, input, policy, listeners, headOnly }) => {
    const { id, name, startIndex } = input;
    await runFor(caller, store, id);
    const readable = new Run(id, store).getReadable({
      ...(name === undefined ? {} : { namespace: name }),
      ...(startIndex === undefined ? {} : { startIndex }),
    });
    if (headOnly) return new Response(null, { headers: eventHeaders });
    const release = listeners.take();
    return new Response(chunkEvents(readable.entries(), { ...policy, release }), { headers: eventHeaders });
  },
});

interface ChunkEventsOptions {
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
  /** Called when the stream has ended, for any reason. */
  readonly release: () => void;
}

/** One event for each chunk, made when the client takes it: a slow client slows only its own reads. */
function chunkEvents(
  chunks: ReadableStream<[number, unknown]>,
  { heartbeatMs, signal, release }: ChunkEventsOptions,
): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder();
  const reader = chunks.getReader();
  let next: ReturnType<typeof reader.read> | undefined;
  let isFirst = true;
  const end = (): void => {
    signal.removeEventListener("abort", end);
    reader.cancel().catch(() => {});
    release();
  };
  signal.addEventListener("abort", end, { once: true });
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const send = (message: string): void => controller.enqueue(bytes.encode(message));
        if (isFirst) {
          isFirst = false;
          return send(": listening\n\n");
        }
        try {
          next ??= reader.read();
          const answer = await withHeartbeat(next, heartbeatMs);
          if (answer === "late") return send(": still here\n\n");
          next = undefined;
          if (!answer.done) {
            const [index, chunk] = answer.value;
            return send(`event: chunk\nid: ${index}\ndata: ${JSON.stringify({ index, chunk: shown(chunk) ?? null })}\n\n`);
          }
          if (!signal.aborted) send("event: end\ndata: {}\n\n");
        } catch (error) {
          // A step has ended the stream with an error, or the store failed: the client can continue after the last index.
          const name = error instanceof Error ? error.name : typeof error;
          send(`event: error\ndata: ${JSON.stringify({ name })}\n\n`);
        }
        end();
        controller.close();
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}

async function withHeartbeat<T>(next: Promise<T>, ms: number): Promise<T | "late"> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((resolve) => {
    timer = setTimeout(resolve, ms, "late");
  });
  return await Promise.race([next, late]).finally(() => clearTimeout(timer));
}
