export interface Stop {
  /** Resolves at SIGINT or SIGTERM. A second one ends the process at once: leases run out, and nothing is lost. */
  readonly asked: Promise<NodeJS.Signals>;
  readonly forget: () => void;
}

export function untilStopped(): Stop {
  let asked = false;
  let tell = (_signal: NodeJS.Signals): void => {};
  const promise = new Promise<NodeJS.Signals>((resolve) => {
    tell = resolve;
  });
  const heard = (signal: NodeJS.Signals): void => {
    if (asked) process.exit(130);
    asked = true;
    tell(signal);
  };
  process.on("SIGINT", heard).on("SIGTERM", heard);
  return { asked: promise, forget: () => void process.off("SIGINT", heard).off("SIGTERM", heard) };
}
