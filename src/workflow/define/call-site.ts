import { placeIn } from "../../core/errors/frames.js";

/** The folder src/workflow, as imports see it and as stack traces do: with source maps the two differ. */
const ownFolders = [
  new URL("..", import.meta.url).href,
  placeIn(new Error("here").stack?.split("\n")[1]).replace(/[^/\\]*[/\\][^/\\]*$/, ""),
];

/** File, line and column of the first stack frame outside of this package. */
export function callSite(): string {
  return siteOf(new Error("call site"));
}

/** A captured stack, which is formatted only when it is read: capturing is cheap, formatting is not. */
export interface Site {
  readonly stack?: string;
}

/** Captures the caller of `callee`. `callee` itself may be in the user's file, as a function with "use step" is. */
export function capturedSite(callee: (...args: never[]) => unknown): Site {
  const site: { stack?: string } = {};
  const { stackTraceLimit } = Error;
  // The caller is the first frame, or a few frames further if a library calls. The limit matters: this runs for every step call.
  Error.stackTraceLimit = framesMax;
  Error.captureStackTrace(site, callee);
  Error.stackTraceLimit = stackTraceLimit;
  return site;
}

const framesMax = 3;

export function siteOf({ stack = "" }: Site = {}): string {
  const lines = stack.split("\n").slice(1);
  const isOwn = (text: string) => ownFolders.some((folder) => text.includes(folder));
  const line = lines.find((text) => !isOwn(text) && !/node:internal|node:async_hooks|\(<anonymous>\)/.test(text));
  return line === undefined ? "an unknown location" : placeIn(line).replace(/^file:\/\//, "");
}
