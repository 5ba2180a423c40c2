import type { Sample } from "../measure.js";

/**
 * A contender: our library, each peer and each floor is a module that exports `open`. Each runs in its own process (child.ts),
 * so that the same code loads and times all of them.
 */
export interface ContenderModule {
  open(options: OpenOptions): Promise<Contender>;
}

export interface OpenOptions {
  /** The URL of an empty database, for contenders on PostgreSQL. */
  readonly url?: string;
  /** An empty folder, for contenders that keep files. */
  readonly folder: string;
  readonly hooks: Hooks;
  /** True: it opens without executing runs yet. Our library only. */
  readonly resting?: boolean;
}

/** Called from inside runs. */
export interface Hooks {
  step(): void;
  woke(index: number): void;
}

export interface Contender {
  /** One run of three steps that do nothing. Resolves after its last commit. */
  run?(): Promise<unknown>;
  /** One run of this many sequential steps; each calls `hooks.step`. For a floor: this many commits. */
  longRun(steps: number): Promise<unknown>;
  /** Starts a run that sleeps until `dueAt` (ms since 1970) and then calls `hooks.woke(index)`. Resolves when the run is started. */
  sleep?(index: number, dueAt: number): Promise<unknown>;
  /** The number of durable writes that the library has sent. */
  flushes?(): number;
  /** Our library only: starts a run of this many steps whose last step never ends. Resolves when that step has begun. */
  hang?(steps: number): Promise<{ readonly freeAfterMs: number }>;
  /** Our library only: starts a worker, and resolves when the last step of the hanging run has begun again. */
  recover?(): Promise<Recovered>;
  /** The process id of a server that only this contender uses. */
  readonly serverPid?: number;
  close(): Promise<void>;
}

/** The commands on the standard input of the process, one line of JSON each, and its answers on the standard output. */
export interface Protocol {
  readonly open: { readonly ask: object; readonly answer: { readonly serverPid: number | null } };
  readonly load: { readonly ask: { readonly inFlight: number; readonly forMs: number }; readonly answer: LoadSample };
  readonly count: { readonly ask: { readonly inFlight: number; readonly runs: number }; readonly answer: Counted };
  readonly long: { readonly ask: { readonly steps: number }; readonly answer: LongSample };
  readonly sleep: { readonly ask: SleepPlan; readonly answer: SleepSample | StartedLate };
  readonly hang: { readonly ask: { readonly steps: number }; readonly answer: { readonly freeAfterMs: number } };
  readonly recover: { readonly ask: object; readonly answer: Recovered };
  readonly close: { readonly ask: object; readonly answer: null };
}
export type Verb = keyof Protocol;

export interface LoadSample extends Sample {
  /** Processor time of the Node process, in cores. */
  readonly cpu: number;
}

export interface Counted {
  readonly runs: number;
  /** In ms since 1970, to match counters of other programs. */
  readonly fromMs: number;
  readonly untilMs: number;
  /** Requests to the database that the process waited for. */
  readonly roundTrips: number;
  readonly flushes: number | null;
}

/** Times between the bodies of consecutive steps. */
export interface LongSample {
  readonly steps: number;
  readonly totalMs: number;
  readonly stepMs: number;
  readonly firstStepMs: number;
  readonly lastStepMs: number;
}

export interface Recovered {
  /** From the start of the new worker until the interrupted step has begun again. */
  readonly resumedMs: number;
}

export interface SleepPlan {
  readonly runs: number;
  /** From the first due time to the last. */
  readonly spreadMs: number;
  /** Time until the first due time: all runs must be asleep before it. */
  readonly leadMs: number;
}

/** The first run was due before all were started: nothing was measured. */
export interface StartedLate {
  /** The time to start all of them; if the rehearsal was already late, an estimate from its part of them. */
  readonly neededMs: number;
}

export interface SleepSample extends SleepPlan {
  /** How long it took to start all of them. */
  readonly startedMs: number;
  readonly rssBytes: number;
  readonly heapBytes: number;
  readonly woken: number;
  readonly lateP50Ms: number;
  readonly lateP99Ms: number;
  readonly lateMaxMs: number;
}
