/** A handle on an open transaction: whatever the store's driver calls one. */
export type Tx = object;
/** Runs `work` in a transaction of the user's own database layer, commits when it resolves, rolls back when it rejects. */
export type TxRunner = <T>(work: (tx: Tx) => Promise<T>) => Promise<T>;
