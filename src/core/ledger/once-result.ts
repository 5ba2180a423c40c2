export type OnceResult<Value> =
  /** The handler ran here, now. */
  | { readonly status: "executed"; readonly value: Value; readonly attempt: number }
  /** The outcome of an earlier attempt. */
  | { readonly status: "replayed"; readonly value: Value; readonly attempt: number }
  /** Another attempt is running (`onRunning: "return"`). */
  | { readonly status: "running"; readonly value?: undefined; readonly attempt: number }
  /** Whether the effect happened can't be told from here: ask the other side, then `resolve`. */
  | { readonly status: "unknown"; readonly value?: undefined; readonly attempt: number };
