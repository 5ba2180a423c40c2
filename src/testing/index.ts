export { type CrashPoint, crashPoints, withCrashPoint } from "./crash-point.js";
export { type CuttingProxy, cuttingProxy } from "./cutting-proxy.js";
export { type EffectCall, EffectLedger } from "./effect-ledger.js";
export { type EffectServer, type EffectServerOptions, serveEffects } from "./effect-server.js";
export { PromiseBroken } from "./simulator/observer.js";
export { Random } from "./simulator/random.js";
export { SimulationFailure, type SimulationOptions, type SimulationReport, simulate } from "./simulator/simulate.js";
