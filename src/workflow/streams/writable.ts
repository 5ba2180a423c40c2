import { InvalidInputError } from "../../core/errors/errors.js";
import { warnOfUnknownOption } from "../../core/errors/known-options.js";
import { addKind } from "../../core/values/kinds.js";
import { currentExecution, currentStep } from "../define/context.js";
import { ContextError } from "../define/errors.js";
import type { StreamTarget } from "../define/stream-target.js";
import { type StreamOptions, streamName, streamOptionNames } from "./stream-name.js";

/** The streams that we made, by name: so that a workflow can hand them to its steps. */
const names = new WeakMap<WritableStream, string>();

/**
 * A stream of this run, to write to: bytes, or any values. Whoever has the run reads it by `run.getReadable()`, now or
 * later, here or in another process.
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

/** Bound to where it is made, and to a step that it is handed to. */
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
 * Refuses an encoded value that leaves its run and has a writable of that run in it. What is stored of a writable is the
 * name of its stream, so in another run it would silently write to a stream of that other run.
 */
export function withoutWritable(what: string, text: string): string {
  if (!holdsWritable(text)) return text;
  throw new InvalidInputError(
    what,
    "holds a WritableStream of getWritable(), which belongs to its run: another run cannot write to it. " +
      "Let that run write to its own stream and read it with getRun(id).getReadable(), or hand the writable to a step of this run",
  );
}

/** In devalue's text only a value of this kind looks like that: inside of a string the quotes are escaped. */
function holdsWritable(text: string): boolean {
  return text.includes(`["${kindName}",`);
}

addKind<WritableStream, string>({
  name: kindName,
  holds: (value): value is WritableStream => value instanceof WritableStream,
  keep(writable) {
    const stream = names.get(writable);
    if (stream !== undefined) return stream;
    throw new InvalidInputError("value", "is a WritableStream that is not the run's: hand over one that getWritable() has made");
  },
  make: writableOf,
});
