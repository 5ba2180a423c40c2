export interface Stop {
  /** Resolves at SIGINT or SIGTERM. A second signal exits at once: the leases expire, and other workers take over. */
  readonly asked: Promise<NodeJS.Signals>;
  readonly forget: () => void;
}

export function untilStopped(): Stop {
  let asked = false;
  let resolveAsked = (_signal: NodeJS.Signals): void => {};
  const promise = new Promise<NodeJS.Signals>((resolve) => {
    resolveAsked = resolve;
  });
  const onSignal = (signal: NodeJS.Signals): void => {
    if (asked) process.exit(130);
    asked = true;
    resolveAsked(signal);
  };
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  return { asked: promise, forget: () => void process.off("SIGINT", onSignal).off("SIGTERM", onSignal) };
}
