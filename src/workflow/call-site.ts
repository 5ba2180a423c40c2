import { placeIn } from "../core/frames.js";

/** Where this folder is, as imports see it and as stack traces do: with source maps these are two places. */
const ours = [new URL(".", import.meta.url).href, placeIn(new Error("here").stack?.split("\n")[1]).replace(/[^/\\]*$/, "")];

/** The first line of the stack that is not ours: file, line and column in the user's code. */
export function callSite(): string {
  const lines = (new Error("call site").stack ?? "").split("\n").slice(1);
  const isOurs = (text: string) => ours.some((folder) => text.includes(folder));
  const line = lines.find((text) => !isOurs(text) && !text.includes("node:internal") && !text.includes("node:async_hooks"));
  return line === undefined ? "an unknown place" : placeIn(line).replace(/^file:\/\//, "");
}
