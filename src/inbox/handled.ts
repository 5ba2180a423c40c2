/** How a message was handled. Acknowledge it after `processed`, `duplicate` and `dead`; have it redelivered after `retry` and `held`. */
export type Handled<Value = unknown> =
  /** The handler ran in this call, and its result is stored. */
  | { readonly status: "processed"; readonly attempt: number; readonly result: Value }
  /** The message was processed before. `result` is missing if it could not be stored or has expired. */
  | { readonly status: "duplicate"; readonly result?: Value }
  /** The message is a dead letter, since this call or (`replayed`) since an earlier delivery. */
  | { readonly status: "dead"; readonly error: unknown; readonly attempt: number; readonly replayed?: true }
  /** The attempt failed; retry after `afterMs`. Attempt 0: the store failed before an attempt began (batches only). */
  | { readonly status: "retry"; readonly error: unknown; readonly attempt: number; readonly afterMs: number }
  /**
   * The handler did not run: another process handles the message, or an earlier message of its `orderKey` is not finished.
   * `unknown`: an earlier attempt may or may not have taken effect.
   */
  | { readonly status: "held"; readonly forMs: number; readonly unknown?: true };

/** Counters of this process since the inbox was created. */
export interface InboxMetrics {
  readonly processed: number;
  /** Messages that were already processed or dead: the handler did not run. */
  readonly duplicates: number;
  readonly held: number;
  readonly retried: number;
  /** Messages that became dead letters in this process. */
  readonly dead: number;
  /** Dead letters that `retry` processed. */
  readonly deadLettersRetried: number;
  /** @deprecated Use `deadLettersRetried`. */
  readonly redriven: number;
}

export type InboxCounts = { -readonly [Name in keyof Omit<InboxMetrics, "redriven">]: number };
