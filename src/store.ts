/** For those who write a store: what a backend has to offer, and what makes a store of it. */

export type { Chunk, ChunkKind, ChunkQuery, ChunkRecord, Voided } from "./core/chunk.js";
export { type Clock, systemClock } from "./core/clock.js";
export { createStore, type StoreOptions } from "./core/create-store.js";
export { type Decision, decide } from "./core/decide.js";
export type { Answer, Batch, Begin, Operation, Renew, Resolve, Settle, Settlement } from "./core/operation.js";
export type { ExecutionNote, ExecutionRecord, ExecutionStatus, FlowState, PacketKey, PacketRecord, PacketState } from "./core/packet.js";
export type {
  PacketAnswer,
  PacketBackend,
  PacketClaimQuery,
  PacketClaims,
  PacketOperation,
  PacketOutcome,
  SendPackets,
  SettlePacket,
} from "./core/packet-operation.js";
export { type AttemptEntry, type LedgerRecord, type RecordId, type State, stateAt } from "./core/record.js";
export { type HookRecord, hasEnded, type JournalEntry, type Mail, type RunRecord, type RunStatus } from "./core/run.js";
export type {
  Append,
  Claimed,
  ClaimQuery,
  Claims,
  Entry,
  Renewed,
  RenewQuery,
  RunAnswer,
  RunBackend,
  RunListQuery,
  RunOperation,
  Send,
  StartRun,
  Then,
  WhatChanged,
  WriteChunks,
} from "./core/run-operation.js";
export type {
  AttemptsQuery,
  AuditEntry,
  AuditedEntry,
  Backend,
  Capabilities,
  HeldLease,
  ListQuery,
  PurgeQuery,
  Reading,
  StandIn,
  Store,
  Tx,
  Verdicted,
} from "./core/store.js";
export { type DynamoClient, type DynamoStoreOptions, dynamoStore } from "./stores/dynamodb/open.js";
export { type MongoClientLike, type MongoStoreOptions, mongoStore } from "./stores/mongodb/store.js";
export { type RedisStoreOptions, redisStore } from "./stores/redis/store.js";
