import type { Capabilities, Store, Tx, TxRunner } from "../../../core/store/store.js";
import type { StoreOptions } from "../../../core/store/store-options.js";

/** The store under test: how to get one, and what it says it can do. */
export interface ContractTarget {
  readonly name: string;
  readonly capabilities: Capabilities;
  /** Whether its ledgers have `sever`. */
  readonly severs: boolean;
  /** Its ledgers have `pass`: an hour costs nothing. */
  readonly virtualTime?: boolean;
  /** A lease that is renewed in time also on a busy machine. Default 1000 ms; more where the server itself is slow. */
  readonly leaseMs?: number;
  /** A new, empty ledger (database, file, schema …) that nobody has opened yet. Cases run at the same time, each on its own. */
  create(): Promise<ContractLedger>;
}

export interface ContractLedger {
  /** A handle on the same data at every call, each as another process would have it. */
  open(options?: StoreOptions): Promise<Store>;
  /** Makes that much of the store's own time pass. Absent: its time is real, and is waited for. */
  pass?(ms: number): Promise<void>;
  /** Rows of somebody's business in the same database; goes with the capability `transactions`. */
  readonly business?: BusinessRows;
  /** Ends every connection of every handle in the middle of whatever it does, as a network would. */
  sever?(): Promise<void>;
  /** Called last, when every handle is closed. */
  remove(): Promise<void>;
}

export interface BusinessRows {
  add(tx: Tx, row: string): Promise<void>;
  /** What is committed, seen from outside of any transaction. */
  rows(): Promise<readonly string[]>;
  /** A transaction of the user's own database layer. */
  readonly runner: TxRunner;
}
