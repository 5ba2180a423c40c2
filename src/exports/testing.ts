export type { ContractCase, ContractGroup } from "../testing/contract/contract-case.js";
export { ledgerContract } from "../testing/contract/ledger/ledger-contract.js";
export { packetContract } from "../testing/contract/packets/packet-contract.js";
export { runContract } from "../testing/contract/runs/run-contract.js";
export { type DynamoTarget, type DynamoTargetOptions, dynamoTarget } from "../testing/contract/targets/dynamodb.js";
export { type MemoryTargetOptions, memoryTarget } from "../testing/contract/targets/memory.js";
export { type MongoTarget, type MongoTargetOptions, mongoTarget } from "../testing/contract/targets/mongodb.js";
export { type PostgresTarget, postgresTarget } from "../testing/contract/targets/postgres.js";
export { type RedisTarget, type RedisTargetOptions, redisTarget } from "../testing/contract/targets/redis.js";
export { sqliteTarget } from "../testing/contract/targets/sqlite.js";
export type { BusinessRows, ContractLedger, ContractTarget } from "../testing/contract/targets/target.js";
export { type CrashPoint, crashPoints, withCrashPoint } from "../testing/crash-point.js";
export { type CuttingProxy, cuttingProxy } from "../testing/cutting-proxy.js";
export { type DeliverTwiceOptions, deliverTwice } from "../testing/deliver-twice.js";
export { type EffectCall, EffectLedger } from "../testing/effect-ledger.js";
export { type EffectServer, type EffectServerOptions, type Overlap, serveEffects } from "../testing/effect-server.js";
export { type Delivered, type DeliverOptions, deliver, type MockInputOptions, mockNodeInput } from "../testing/node-delivery.js";
export { type Replayed, type ReplayOptions, replayJournal } from "../testing/replay-journal.js";
export type { Crash, CrashMoment, CrashOptions } from "../testing/runner/crashes.js";
export type { ExpectedEffect } from "../testing/runner/expectations.js";
export type { StepExecution } from "../testing/runner/step-execution.js";
export type { StepLike, StepMock } from "../testing/runner/step-mocks.js";
export { type TestWorkflowsOptions, testWorkflows } from "../testing/runner/test-workflows.js";
export type { RunLike, SleepingRun, WaitingHook, WorkflowTest } from "../testing/runner/workflow-test.js";
export { type GraphSimulationOptions, type GraphSimulationReport, simulateGraphs } from "../testing/simulator/graph/simulate-graphs.js";
export { PromiseBroken } from "../testing/simulator/observer.js";
export { Random } from "../testing/simulator/random.js";
export { SimulationFailure, type SimulationOptions, type SimulationReport, simulate } from "../testing/simulator/simulate.js";
export {
  simulateWorkflows,
  type WorkflowSimulationOptions,
  type WorkflowSimulationReport,
} from "../testing/simulator/workflow/simulate-workflows.js";
