import type { Clock } from "../work/clock.js";

/** Fewer failures in a row are not reported: a connection broke, and the next one works. */
const timesMin = 3;
/** The same kind of error is reported again only after this time. */
const quietMs = 600_000;

/** Warns about errors of the store that repeat: one warning per kind of error and ten minutes. */
export class StoreTrouble {
  readonly #clock: Clock;
  readonly #quietUntil = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Records that `what` has failed `times` times in a row, the last time with `error`. */
  met(what: string, times: number, error: unknown): void {
    if (times < timesMin) return;
    const kind = kindOf(error);
    const now = this.#clock.now();
    if (now < (this.#quietUntil.get(kind) ?? Number.NEGATIVE_INFINITY)) return;
    this.#quietUntil.set(kind, now + quietMs);
    const why = error instanceof Error ? error.message : String(error);
    process.emitWarning(`[onceflow] ${what} has failed ${times} times in a row; it is retried until it succeeds: ${why}`, {
      type: "OnceflowWarning",
      code: "ONCEFLOW_STORE_TROUBLE",
    });
  }
}

/** Groups errors by the names and codes of the error and its causes. Not by message: messages contain names and times that differ. */
export function kindOf(error: unknown): string {
  const codes: unknown[] = [];
  for (let cause = error; cause instanceof Error && codes.length < 10; cause = cause.cause) {
    const { code, errcode } = cause as { readonly code?: unknown; readonly errcode?: unknown };
    codes.push(cause.name, code, errcode);
  }
  return codes.join(" ");
}
