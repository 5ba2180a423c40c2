import { NotKnownError, StoreRefusedError, UnreachableError } from "../../../core/errors/errors.js";
import type { RunBackend } from "../../../core/runs/operation.js";
import type { Backend } from "../../../core/store/store.js";
import type { Weather } from "../faults.js";
import { never, type SimulatedProcess, type World } from "../world.js";

export interface RunWeather extends Weather {
  /** A request that its sender has given up is done all the same, this much later. */
  readonly late: number;
  readonly lateMsMax: number;
  /** News of a change that do not arrive. */
  readonly loseNews: number;
}

export interface Storm {
  readonly weather: RunWeather;
  over: boolean;
}

export type WithRuns = Backend & { readonly runs: RunBackend };

export interface Weathered {
  readonly world: World;
  readonly process: SimulatedProcess;
  readonly storm: Storm;
  readonly die: (why: string) => void;
}

/** Ledger, queue and journal as a process sees them over a bad network: every call may be lost, or kill the process. */
export function withRunFaults(backend: WithRuns, weathered: Weathered): WithRuns {
  const { world, process, storm } = weathered;
  const { runs } = backend;
  const write = <Args extends unknown[], T>(name: string, call: (...args: Args) => Promise<T>) => faulty(weathered, name, call, true);
  const read = <Args extends unknown[], T>(name: string, call: (...args: Args) => Promise<T>) => faulty(weathered, name, call, false);
  return {
    ...backend,
    flush: write("flush of the ledger", backend.flush),
    ...(backend.transact ? { transact: faultyTransactions(weathered, backend.transact) } : {}),
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
          if (!storm.over && world.random.chance(storm.weather.loseNews)) return;
          // Some stores only know that something has changed.
          const news = world.random.chance(0.2) ? null : run;
          world.after(world.random.between(0, storm.weather.latencyMsMax), () => changed(news, what), process);
        });
        return stop;
      },
    },
  };
}

/** The connection may break, or the process die, before the work, before the commit and after it. */
function faultyTransactions(weathered: Weathered, transact: NonNullable<Backend["transact"]>): NonNullable<Backend["transact"]> {
  const { world, storm } = weathered;
  const step = (name: string) => faulty(weathered, name, async () => {}, false);
  const [begin, commit, answer] = [step("transaction"), step("commit"), step("the answer to a commit")];
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
    // Nobody hears of what becomes of a commit that was given up.
    done.catch(() => {});
    const result = await Promise.race([done, givenUp]);
    await answer();
    return result;
  };
}

/** Its sender does not hear the answer to a request that it has given up. */
function ignoreRefusal(error: unknown): void {
  if (!(error instanceof StoreRefusedError)) throw error;
}

/** What is on its way arrives, whatever becomes of its sender meanwhile; the sender may never learn of it. */
export function faulty<Args extends unknown[], T>(
  { world, process, storm, die }: Weathered,
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
