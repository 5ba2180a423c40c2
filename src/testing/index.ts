export type { ContractCase, ContractGroup } from "./contract/contract-case.js";
export { type DynamoTarget, type DynamoTargetOptions, dynamoTarget } from "./contract/dynamo-target.js";
export { ledgerContract } from "./contract/ledger-contract.js";
export { type MemoryTargetOptions, memoryTarget } from "./contract/memory-target.js";
export { type MongoTarget, type MongoTargetOptions, mongoTarget } from "./contract/mongodb-target.js";
export { packetContract } from "./contract/packets/packet-contract.js";
export { type PostgresTarget, postgresTarget } from "./contract/postgres-target.js";
export { type RedisTarget, type RedisTargetOptions, redisTarget } from "./contract/redis-target.js";
export { runContract } from "./contract/runs/run-contract.js";
export { sqliteTarget } from "./contract/sqlite-target.js";
export type { BusinessRows, ContractLedger, ContractTarget } from "./contract/target.js";
export { type CrashPoint, crashPoints, withCrashPoint } from "./crash-point.js";
export { type CuttingProxy, cuttingProxy } from "./cutting-proxy.js";
export { type EffectCall, EffectLedger } from "./effect-ledger.js";
export { type EffectServer, type EffectServerOptions, type Overlap, serveEffects } from "./effect-server.js";
export { type Delivered, type DeliverOptions, deliver, type MockInputOptions, mockNodeInput } from "./node-delivery.js";
export { type Replayed, type ReplayOptions, replayJournal } from "./replay-journal.js";
export type { StepExecution } from "./runner/bodies.js";
export type { Crash, CrashMoment, CrashOptions } from "./runner/crashes.js";
export type { ExpectedEffect } from "./runner/expectations.js";
export type { StepLike, StepMock } from "./runner/step-mocks.js";
export { type TestWorkflowsOptions, testWorkflows } from "./runner/test-workflows.js";
export type { RunLike, SleepingRun, WaitingHook, WorkflowTest } from "./runner/workflow-test.js";
export { type GraphSimulationOptions, type GraphSimulationReport, simulateGraphs } from "./simulator/graph/simulate-graphs.js";
export { PromiseBroken } from "./simulator/observer.js";
export { Random } from "./simulator/random.js";
export { SimulationFailure, type SimulationOptions, type SimulationReport, simulate } from "./simulator/simulate.js";
export {
  simulateWorkflows,
  type WorkflowSimulationOptions,
  type WorkflowSimulationReport,
} from "./simulator/workflow/simulate-workflows.js";
