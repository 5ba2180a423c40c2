/** For authors of stores: the interface of a backend, and `createStore`, which makes a store of it. */

export { type Decision, decide } from "../core/ledger/decide.js";
export type { Answer, Batch, Begin, Operation, Renew, Resolve, Settle, Settlement } from "../core/ledger/operation.js";
export { type AttemptEntry, type LedgerRecord, type RecordId, type State, stateAt } from "../core/ledger/record.js";
export type {
  PacketAct,
  PacketActed,
  PacketAnswer,
  PacketBackend,
  PacketChange,
  PacketClaimQuery,
  PacketClaims,
  PacketOperation,
  PacketOutcome,
  SendPackets,
  SettlePacket,
} from "../core/packets/operation.js";
export type {
  ExecutionNote,
  ExecutionRecord,
  ExecutionStatus,
  FlowState,
  PacketKey,
  PacketRecord,
  PacketState,
} from "../core/packets/packet.js";
export type { Chunk, ChunkKind, ChunkQuery, ChunkRecord, Voided } from "../core/runs/chunk.js";
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
} from "../core/runs/operation.js";
export { type HookRecord, hasEnded, type JournalEntry, type Mail, type RunRecord, type RunStatus } from "../core/runs/run.js";
export { createStore } from "../core/store/create-store.js";
export type {
  AttemptsQuery,
  AuditEntry,
  AuditedEntry,
  Backend,
  Capabilities,
  HeartbeatThread,
  HeldLease,
  ListQuery,
  PurgeQuery,
  Reading,
  StandIn,
  Store,
  Tx,
  Verdicted,
} from "../core/store/store.js";
export type { StoreOptions } from "../core/store/store-options.js";
export { type Clock, systemClock } from "../core/work/clock.js";
export { type DynamoStoreOptions, dynamoStore } from "../stores/dynamodb/index.js";
export type { DynamoClient } from "../stores/dynamodb/options.js";
export { type MongoClientLike, type MongoStoreOptions, mongoStore } from "../stores/mongodb/index.js";
export { type RedisStoreOptions, redisStore } from "../stores/redis/index.js";
