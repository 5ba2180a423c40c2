import { locationIn } from "../../core/errors/frames.js";

/** This file, as imports see it and as stack traces do: with source maps the two differ. */
const locations = [import.meta.url, locationIn(new Error("here").stack?.split("\n")[1])];

/** The folder src/workflow. None in a bundle, where the package and the user's code are one file. */
const ownFolders = locations.flatMap((location) => /^(.*[/\\])define[/\\]call-site\.[jt]s\b/.exec(location)?.[1] ?? []);

const unknownLocation = "an unknown location";

/** File, line and column of the first stack frame outside of this package. Unknown in a bundle. */
export function callSite(): string {
  return ownFolders.length === 0 ? unknownLocation : siteOf(new Error("call site"));
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
  return line === undefined ? unknownLocation : locationIn(line).replace(/^file:\/\//, "");
}
