import type { Capabilities, Store, Tx, TxRunner } from "../../../core/store/store.js";
import type { StoreOptions } from "../../../core/store/store-options.js";

/** A store under test: how to create a ledger of it, and which capabilities it declares. */
export interface ContractTarget {
  /** Name of the store in messages of skipped cases. */
  readonly name: string;
  /** The capabilities that every store of this target must declare. */
  readonly capabilities: Capabilities;
  /** Whether its ledgers have `sever`. */
  readonly severs: boolean;
  /** Whether its ledgers have `pass`, so that cases can let hours pass at once. */
  readonly virtualTime?: boolean;
  /** A lease that the heartbeat renews in time, even on a busy machine. Default 1000 ms; set more if the server is slow. */
  readonly leaseMs?: number;
  /**
   * Creates an empty ledger (database, file, schema …). Cases run at the same time, each on its own ledger. A target may empty a ledger that was
   * removed and use it again, unless it must be `unopened`: then no store has created its tables.
   */
  create(options?: { readonly unopened?: boolean }): Promise<ContractLedger>;
}

/** One ledger of a target: the data of one case. */
export interface ContractLedger {
  /** Opens a new handle on the same data, as another process would. */
  open(options?: StoreOptions): Promise<Store>;
  /** Moves the store's clock forward. Absent: the store runs in real time, and cases wait. */
  pass?(ms: number): Promise<void>;
  /** Application rows in the same database; required with the capability `transactions`. */
  readonly business?: BusinessRows;
  /** Cuts every connection of every handle, even in the middle of a request, as a network failure would. */
  sever?(): Promise<void>;
  /** Removes the data. Called last, when every handle is closed. */
  remove(): Promise<void>;
}

/** A table of the application, next to the ledger, for cases about transactions. */
export interface BusinessRows {
  /** Adds a row inside the transaction. */
  add(tx: Tx, row: string): Promise<void>;
  /** The committed rows, read outside any transaction. */
  rows(): Promise<readonly string[]>;
  /** Runs work in a transaction of the application's own database layer. */
  readonly runner: TxRunner;
}
