import { NotKnownError, UnreachableError } from "../../core/errors/errors.js";
import type { Backend } from "../../core/store/store.js";
import { never, type SimulatedProcess, type World } from "./world.js";

/** The faults of a seed: the probability of each one per store call, and the longest pause and latency. */
export interface Weather {
  readonly crashBefore: number;
  readonly crashAfter: number;
  readonly loseRequest: number;
  readonly loseReply: number;
  readonly unreachable: number;
  readonly pause: number;
  readonly pauseMsMax: number;
  readonly latencyMsMax: number;
}

/** The store as a process sees it over an unreliable network. The store itself works correctly. */
export function withFaults(backend: Backend, world: World, host: SimulatedProcess, weather: Weather): Backend {
  const { random } = world;
  const travel = () => world.wait(random.between(0, weather.latencyMsMax));
  /** Waits until the process is not paused; never resolves if the process is dead. */
  const awake = async () => {
    while (!host.dead && world.now() < host.pausedUntil) await world.wait(host.pausedUntil - world.now());
    if (host.dead) await never();
  };
  /** Sends the request, calls the store, and returns the reply, with a fault at any of these points. */
  const call = async <T>(ask: () => Promise<T>): Promise<T> => {
    await travel();
    await awake();
    if (random.chance(weather.unreachable)) throw new UnreachableError("simulated: no connection");
    if (random.chance(weather.crashBefore)) host.dead = true;
    if (host.dead) return never();
    if (random.chance(weather.loseRequest)) throw new NotKnownError("simulated: the request was lost");
    const answer = await ask();
    if (random.chance(weather.crashAfter)) host.dead = true;
    if (random.chance(weather.pause)) host.pausedUntil = world.now() + random.between(1, weather.pauseMsMax);
    await travel();
    await awake();
    if (random.chance(weather.loseReply)) throw new NotKnownError("simulated: the reply was lost");
    return answer;
  };
  const { packets } = backend;
  return {
    ...backend,
    flush: (operations) => call(() => backend.flush(operations)),
    ...(packets && {
      packets: {
        ...packets,
        flush: (operations) => call(() => packets.flush(operations)),
        join: (query) => call(() => packets.join(query)),
        renew: (worker, leaseMs) => call(() => packets.renew(worker, leaseMs)),
        leave: (worker) => call(() => packets.leave(worker)),
        claim: (query) => call(() => packets.claim(query)),
        reinject: (no, alert) => call(() => packets.reinject(no, alert)),
        discard: (no) => call(() => packets.discard(no)),
      },
    }),
  };
}
