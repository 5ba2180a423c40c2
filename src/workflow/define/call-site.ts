import { placeIn } from "../../core/errors/frames.js";

/** Where this file is, as imports see it and as stack traces do: with source maps these are two places. */
const places = [import.meta.url, placeIn(new Error("here").stack?.split("\n")[1])];

/** The folder src/workflow. None in a bundle, where our code and the user's are one file. */
const ours = places.flatMap((place) => /^(.*[/\\])define[/\\]call-site\.[jt]s\b/.exec(place)?.[1] ?? []);

/** The first line of the stack that is not ours: file, line and column in the user's code. In a bundle it is not known. */
export function callSite(): string {
  return ours.length === 0 ? unknownPlace : siteOf(new Error("call site"));
}

const unknownPlace = "an unknown place";

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
  return line === undefined ? unknownPlace : placeIn(line).replace(/^file:\/\//, "");
}
