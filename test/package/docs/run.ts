import { fork } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { compiled, outFolder } from "./compile.js";
import type { Ran } from "./run-sample.js";
import type { Sample } from "./samples.js";

const runMsMax = 50_000;

/** Runs a sample in an empty folder. Returns undefined if the process ended or was killed before the end of the sample. */
export function run(sample: Sample, cwd: string, env: NodeJS.ProcessEnv): Promise<Ran | undefined> {
  const entry = compiled(sample, sample.files.at(-1)?.name ?? "");
  const child = fork(join(outFolder, "test/package/docs/run-sample.js"), [pathToFileURL(entry).href], {
    execArgv: [],
    silent: true,
    cwd,
    env: { ...process.env, ...env },
  });
  // A program that hangs is ended, so that its sample is named.
  const tooLong = setTimeout(() => child.kill("SIGKILL"), runMsMax);
  let ran: Ran | undefined;
  child.on("message", (message) => {
    ran = message as Ran;
  });
  return new Promise((ended) =>
    child.once("close", () => {
      clearTimeout(tooLong);
      ended(ran);
    }),
  );
}
