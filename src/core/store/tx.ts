/** A handle on an open transaction, in the form that the store's driver uses: a `pg` client, or a SQLite connection. */
export type Tx = object;
/**
 * Runs `work` in a transaction of your own database layer. It must commit when `work` resolves and roll back when `work` rejects,
 * and pass the driver's handle.
 */
export type TxRunner = <T>(work: (tx: Tx) => Promise<T>) => Promise<T>;
