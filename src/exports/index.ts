export { type Configuration, configure } from "../ambient/ambient.js";
export { once } from "../ambient/once.js";
export {
  ConfigurationError,
  EncryptionError,
  type ErrorFacts,
  GoneError,
  InvalidInputError,
  LeaseLostError,
  MismatchError,
  NotApplied,
  NotKnownError,
  NotSavedError,
  NotUnknownError,
  OnceflowError,
  ResultNotKeptError,
  RunningError,
  StoreRefusedError,
  UnreachableError,
} from "../core/errors/errors.js";
export { type Inspection, inspect } from "../core/ledger/inspect.js";
export { type Key, key } from "../core/ledger/key.js";
export type { KeyRef } from "../core/ledger/key-ref.js";
export { type ListOptions, list, type RecordPage } from "../core/ledger/list.js";
export {
  type AskedOperation,
  type AskOptions,
  type NamedOperation,
  type OperationOptions,
  operation,
} from "../core/ledger/named-operation.js";
export type { Attempt, Handler, OnceResult } from "../core/ledger/once.js";
export type { OnceOptions, Reconciled, ReconcileRequest } from "../core/ledger/options.js";
export { purge } from "../core/ledger/purge.js";
export type { AttemptEntry, EffectClass, State, Verdict } from "../core/ledger/record.js";
export { type Resolution, resolve } from "../core/ledger/resolve.js";
export type { RecordSummary } from "../core/ledger/summary.js";
export type { AuditEntry, AuditedEntry, Capabilities, Metrics, Store, Tx, TxRunner } from "../core/store/store.js";
export type { StoreOptions } from "../core/store/store-options.js";
export type { EncryptionKey, EncryptionOptions } from "../core/values/cipher.js";
export { type Serializer, serializable } from "../core/values/serializable.js";
export { isReplayed } from "../core/values/stored-error.js";
export { open } from "../stores/open.js";
export type { OpenOptions } from "../stores/open-options.js";
export type { SqliteTx } from "../stores/sqlite/transactions/transact.js";
