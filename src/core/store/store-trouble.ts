import type { Clock } from "../work/clock.js";

/** Fewer failures in a row are nothing to talk about: a connection broke, and the next one works. */
const timesMin = 3;
/** The same kind of error is reported again only after this time. */
const quietMs = 600_000;

/** Reports errors of the store that a worker meets again and again: one warning per kind of error. */
export class StoreTrouble {
  readonly #clock: Clock;
  readonly #quietUntil = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `what` has failed so many times in a row, the last time with `error`. */
  met(what: string, times: number, error: unknown): void {
    if (times < timesMin) return;
    const kind = kindOf(error);
    const now = this.#clock.now();
    if (now < (this.#quietUntil.get(kind) ?? Number.NEGATIVE_INFINITY)) return;
    this.#quietUntil.set(kind, now + quietMs);
    const why = error instanceof Error ? error.message : String(error);
    process.emitWarning(`${what} has failed ${times} times, and is tried again until it succeeds: ${why}`, {
      type: "OnceflowWarning",
      code: "ONCEFLOW_STORE_TROUBLE",
    });
  }
}

/** By the codes of the error and its causes: messages may have other names and times in them every time. */
export function kindOf(error: unknown): string {
  const codes: unknown[] = [];
  for (let cause = error; cause instanceof Error && codes.length < 10; cause = cause.cause) {
    const { code, errcode } = cause as { readonly code?: unknown; readonly errcode?: unknown };
    codes.push(cause.name, code, errcode);
  }
  return codes.join(" ");
}
