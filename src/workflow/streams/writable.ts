import { InvalidInputError } from "../../core/errors/errors.js";
import { warnOfUnknownOption } from "../../core/errors/known-options.js";
import { addKind } from "../../core/values/kinds.js";
import { currentExecution, currentStep } from "../define/context.js";
import { ContextError } from "../define/errors.js";
import type { StreamTarget } from "../define/stream-target.js";
import { type StreamOptions, streamName, streamOptionNames } from "./stream-name.js";

/** Names of the streams made here, so that a workflow can pass a writable to its steps. */
const names = new WeakMap<WritableStream, string>();

/**
 * Returns the writable side of a stream of this run. Chunks are bytes or any values that can be stored. Any process can read
 * the stream with `run.getReadable()`, now or later. Throws ContextError outside of a workflow or step.
 *
 * @example
 * const writer = getWritable<string>().getWriter();
 * await writer.write("one third is done");
 * writer.releaseLock();
 */
export function getWritable<Chunk = unknown>(options: StreamOptions = {}): WritableStream<Chunk> {
  warnOfUnknownOption("getWritable", options, streamOptionNames);
  const stream = streamName(options);
  currentTarget();
  return writableOf(stream) as WritableStream<Chunk>;
}

/** Writes for the workflow or step that made it; a writable that a workflow made writes for the step it is passed to. */
function writableOf(stream: string): WritableStream {
  const made = currentStep() ?? currentExecution();
  const target = () => {
    const context = made?.kind === "step" ? made : (currentStep() ?? made);
    if (context === undefined) return currentTarget();
    return context.kind === "step" ? context.writer : context.streams;
  };
  const writable = new WritableStream({
    write: (value) => target().write(stream, value),
    close: () => target().end(stream),
    abort: (reason) => target().abort(stream, reason),
  });
  names.set(writable, stream);
  return writable;
}

function currentTarget(): StreamTarget {
  const step = currentStep();
  if (step) return step.writer;
  const execution = currentExecution();
  if (execution) return execution.streams;
  throw new ContextError("getWritable()", "a workflow or a step");
}

const kindName = "WritableStream";

/**
 * Rejects an encoded value that leaves its run and contains a writable of that run. A writable is stored as the name of its
 * stream, so in another run it would silently write to a stream of that other run.
 */
export function withoutWritable(what: string, text: string): string {
  if (!holdsWritable(text)) return text;
  throw new InvalidInputError(
    what,
    "contains a WritableStream of getWritable(), which belongs to its run: another run cannot write to it. " +
      "Let the other run write to its own stream and read that with getRun(id).getReadable(), or pass the writable to a step of this run",
  );
}

/** In the encoded text (devalue) only a value of this kind contains this sequence: inside a string the quotes are escaped. */
function holdsWritable(text: string): boolean {
  return text.includes(`["${kindName}",`);
}

addKind<WritableStream, string>({
  name: kindName,
  holds: (value): value is WritableStream => value instanceof WritableStream,
  keep(writable) {
    const stream = names.get(writable);
    if (stream !== undefined) return stream;
    throw new InvalidInputError("value", "is a WritableStream that does not belong to a run: pass one that getWritable() returned");
  },
  make: writableOf,
});
