import { constants } from "node:os";

/** The run was ended from outside. The message is shown to the user. */
export class Stopped extends Error {
  readonly exitCode: number;
  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/**
 * One controller for everything: processes, waits and customers end when it aborts. It aborts at Ctrl-C, at the time limit, at an
 * error that a retry cannot fix, and when all orders are done.
 */
export function startRun(deadlineMs: number): AbortController {
  const run = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => run.abort(new Stopped(`Stopped by ${name}; cleaning up.`, 128 + constants.signals[name])));
  const late = new Stopped(`FAILED: not done after ${deadlineMs / 1000} s, which is the limit. Is this machine very busy?`, 1);
  setTimeout(() => run.abort(late), deadlineMs).unref();
  return run;
}
