import { locationIn } from "../../core/errors/frames.js";

/** Where the folder src/workflow is, as imports see it and as stack traces do: with source maps these are two places. */
const ours = [new URL("..", import.meta.url).href, locationIn(new Error("here").stack?.split("\n")[1]).replace(/[^/\\]*[/\\][^/\\]*$/, "")];

/** The first line of the stack that is not ours: file, line and column in the user's code. */
export function callSite(): string {
  return siteOf(new Error("call site"));
}

/** A stack that was captured, and is not formatted before it is read: capturing is cheap, formatting is not. */
export interface Site {
  readonly stack?: string;
}

/** The place that called `callee`, which may stand in the user's file itself: a step that says "use step" does. */
export function capturedSite(callee: (...args: never[]) => unknown): Site {
  const site: { stack?: string } = {};
  const { stackTraceLimit } = Error;
  // The caller is the first frame, or a few behind it where a library calls. This is done at every call of a step.
  Error.stackTraceLimit = framesMax;
  Error.captureStackTrace(site, callee);
  Error.stackTraceLimit = stackTraceLimit;
  return site;
}

const framesMax = 3;

export function siteOf({ stack = "" }: Site = {}): string {
  const lines = stack.split("\n").slice(1);
  const isOurs = (text: string) => ours.some((folder) => text.includes(folder));
  const line = lines.find((text) => !isOurs(text) && !/node:internal|node:async_hooks|\(<anonymous>\)/.test(text));
  return line === undefined ? "an unknown place" : locationIn(line).replace(/^file:\/\//, "");
}
