/** What became of a message. Acknowledge it after `processed`, `duplicate` and `dead`; let it come again after `retry` and `held`. */
export type Handled<Value = unknown> =
  /** The handler ran here, now, and its outcome is in the store. */
  | { readonly status: "processed"; readonly attempt: number; readonly result: Value }
  /** It was processed before. No result: it could not be kept, or is no longer kept. */
  | { readonly status: "duplicate"; readonly result?: Value }
  /** It is among the dead letters: since now, or (`replayed`) since an earlier delivery. */
  | { readonly status: "dead"; readonly error: unknown; readonly attempt: number; readonly replayed?: true }
  /** The attempt failed, and there will be another one. Attempt 0: none began, because the store failed (batches only). */
  | { readonly status: "retry"; readonly error: unknown; readonly attempt: number; readonly afterMs: number }
  /** It was not run: somebody else is at it, or one before it in order is not done. `unknown`: whether an attempt took effect can't be told. */
  | { readonly status: "held"; readonly forMs: number; readonly unknown?: true };

/** Counted since the inbox was made, in this process. */
export interface InboxMetrics {
  readonly processed: number;
  /** Processed or dead before: nothing ran. */
  readonly duplicates: number;
  readonly held: number;
  readonly retried: number;
  /** Became dead letters here. */
  readonly dead: number;
  /** Dead letters that were processed after all. */
  readonly redriven: number;
}

export type InboxCounts = { -readonly [Name in keyof InboxMetrics]: number };
