/** What `once` returns. Every status but `"executed"` and `"replayed"` has no value. */
export type OnceResult<Value> =
  /** The handler ran in this call. */
  | { readonly status: "executed"; readonly value: Value; readonly attempt: number }
  /** The outcome of an earlier attempt. */
  | { readonly status: "replayed"; readonly value: Value; readonly attempt: number }
  /** Another attempt is running (`onRunning: "return"`). */
  | { readonly status: "running"; readonly value?: undefined; readonly attempt: number }
  /** Whether the effect happened is not known. Check the external system, then call `resolve`. */
  | { readonly status: "unknown"; readonly value?: undefined; readonly attempt: number };
