import { NotKnownError, StoreRefusedError, UnreachableError } from "../../../core/errors/errors.js";
import type { RunBackend } from "../../../core/runs/operation.js";
import type { Backend } from "../../../core/store/store.js";
import type { Weather } from "../faults.js";
import { never, type SimulatedProcess, type World } from "../world.js";

export interface RunWeather extends Weather {
  /** Probability that the store executes a request late, after its sender has given up; and the longest delay. */
  readonly late: number;
  readonly lateMsMax: number;
  /** Probability that a change notification is lost. */
  readonly loseNotification: number;
}

/** The phase of a simulation in which faults are injected. After it the world must recover. */
export interface Storm {
  readonly weather: RunWeather;
  over: boolean;
}

export type WithRuns = Backend & { readonly runs: RunBackend };

export interface FaultyProcess {
  readonly world: World;
  readonly process: SimulatedProcess;
  readonly storm: Storm;
  readonly die: (why: string) => void;
}

/** Ledger, queue and journal as a process sees them over an unreliable network: each call may be lost, and the process may crash in it. */
export function withRunFaults(backend: WithRuns, faults: FaultyProcess): WithRuns {
  const { world, process, storm } = faults;
  const { runs } = backend;
  const write = <Args extends unknown[], T>(name: string, call: (...args: Args) => Promise<T>) => faulty(faults, name, call, true);
  const read = <Args extends unknown[], T>(name: string, call: (...args: Args) => Promise<T>) => faulty(faults, name, call, false);
  return {
    ...backend,
    flush: write("flush of the ledger", backend.flush),
    ...(backend.transact ? { transact: faultyTransactions(faults, backend.transact) } : {}),
    runs: {
      ...runs,
      flush: write("flush", runs.flush),
      claim: write("claim", runs.claim),
      renew: write("renew", runs.renew),
      workers: read("workers", runs.workers),
      leave: write("leave", runs.leave),
      load: read("load", runs.load),
      mail: read("mail", runs.mail),
      read: read("read", runs.read),
      journal: read("journal", runs.journal),
      list: read("list", runs.list),
      hook: read("hook", runs.hook),
      chunks: read("chunks", runs.chunks),
      tail: read("tail", runs.tail),
      watch(changed) {
        const stop = runs.watch((run, what) => {
          if (process.dead) return stop();
          if (!storm.over && world.random.chance(storm.weather.loseNotification)) return;
          // Some stores notify without the run id.
          const changedRun = world.random.chance(0.2) ? null : run;
          world.after(world.random.between(0, storm.weather.latencyMsMax), () => changed(changedRun, what), process);
        });
        return stop;
      },
    },
  };
}

/** The connection may break, or the process may crash, before the work, before the commit and after the commit. */
function faultyTransactions(faults: FaultyProcess, transact: NonNullable<Backend["transact"]>): NonNullable<Backend["transact"]> {
  const { world, storm } = faults;
  const step = (name: string) => faulty(faults, name, async () => {}, false);
  const [begin, commit, answer] = [step("transaction"), step("commit"), step("the reply to a commit")];
  return async (work) => {
    await begin();
    let giveUp: (error: Error) => void = () => {};
    const givenUp = new Promise<never>((_, reject) => {
      giveUp = reject;
    });
    const done = transact(async (tx) => {
      const inside = await work(tx);
      await commit();
      if (!storm.over && world.random.chance(storm.weather.late)) {
        giveUp(new NotKnownError("simulated: the reply to a commit was lost"));
        await world.wait(world.random.between(0, storm.weather.lateMsMax));
      }
      return inside;
    });
    // The result of a commit that the sender has given up is ignored.
    done.catch(() => {});
    const result = await Promise.race([done, givenUp]);
    await answer();
    return result;
  };
}

/** The sender has given up the request, so a rejection reaches no one. Other errors are bugs. */
function ignoreRefusal(error: unknown): void {
  if (!(error instanceof StoreRefusedError)) throw error;
}

/** Adds faults to a store call. A request that was sent may arrive even if its sender dies or gives up; then the sender never gets the answer. */
export function faulty<Args extends unknown[], T>(
  { world, process, storm, die }: FaultyProcess,
  name: string,
  call: (...args: Args) => Promise<T>,
  writes: boolean,
): (...args: Args) => Promise<T> {
  const { random } = world;
  const { weather } = storm;
  const strikes = (probability: number) => !storm.over && random.chance(probability);
  const travel = () => world.wait(random.between(0, weather.latencyMsMax));
  const awake = async () => {
    while (!process.dead && world.now() < process.pausedUntil) await world.wait(process.pausedUntil - world.now());
    if (process.dead) await never();
  };
  const lost = (what: string) => (writes ? new NotKnownError(`simulated: ${what}`) : new UnreachableError(`simulated: ${what}`));
  return async (...args) => {
    await awake();
    if (strikes(weather.crashBefore)) die(`before ${name}`);
    if (process.dead) return never();
    if (strikes(weather.unreachable)) {
      await travel();
      await awake();
      throw new UnreachableError("simulated: no connection");
    }
    const lateness = writes && strikes(weather.late) ? random.between(0, weather.lateMsMax) : undefined;
    if (lateness !== undefined) world.after(lateness, () => void call(...args).catch(ignoreRefusal));
    await travel();
    if (lateness !== undefined || strikes(weather.loseRequest)) {
      await awake();
      throw lost("the request was lost");
    }
    const answer = await call(...args);
    if (strikes(weather.crashAfter)) die(`after ${name}`);
    if (strikes(weather.pause)) process.pausedUntil = world.now() + random.between(1, weather.pauseMsMax);
    await travel();
    await awake();
    if (strikes(weather.loseReply)) throw lost("the reply was lost");
    return answer;
  };
}
