export { type Configuration, configure } from "./ambient.js";
export type { EncryptionKey, EncryptionOptions } from "./core/cipher.js";
export type { StoreOptions } from "./core/create-store.js";
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
} from "./core/errors.js";
export { type Inspection, inspect } from "./core/inspect.js";
export { type Key, key } from "./core/key.js";
export type { KeyRef } from "./core/key-ref.js";
export { type ListOptions, list, type RecordPage } from "./core/list.js";
export { type AskedOperation, type AskOptions, type NamedOperation, type OperationOptions, operation } from "./core/named-operation.js";
export type { Attempt, Handler, OnceResult } from "./core/once.js";
export type { OnceOptions, Reconciled, ReconcileRequest } from "./core/options.js";
export { purge } from "./core/purge.js";
export type { AttemptEntry, EffectClass, State, Verdict } from "./core/record.js";
export { type Resolution, resolve } from "./core/resolve.js";
export { type Serializer, serializable } from "./core/serializable.js";
export type { AuditEntry, AuditedEntry, Capabilities, Metrics, Store, Tx, TxRunner } from "./core/store.js";
export { isReplayed } from "./core/stored-error.js";
export type { RecordSummary } from "./core/summary.js";
export { once } from "./once.js";
export { type OpenOptions, open } from "./stores/open.js";
export type { SqliteTx } from "./stores/sqlite/transact.js";
