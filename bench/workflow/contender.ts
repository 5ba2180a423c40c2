import type { Sample } from "../measure.js";

/**
 * What is measured: ours, each peer and each floor is a module that exports `open`, and runs in a process of its own
 * (child.ts), so that the same code loads and times all of them.
 */
export interface ContenderModule {
  open(options: OpenOptions): Promise<Contender>;
}

export interface OpenOptions {
  /** An empty database, for those on PostgreSQL. */
  readonly url?: string;
  /** An empty folder, for those that keep files. */
  readonly folder: string;
  readonly hooks: Hooks;
  /** True: it opens, and does not work on runs yet. Ours only. */
  readonly resting?: boolean;
}

/** Called from inside runs. */
export interface Hooks {
  step(): void;
  woke(index: number): void;
}

export interface Contender {
  /** One run of three steps that do nothing. Answers after its last commit. */
  run?(): Promise<unknown>;
  /** One run of so many steps, one after the other; each calls `hooks.step`. Of a floor: so many commits. */
  longRun(steps: number): Promise<unknown>;
  /** Starts a run that sleeps until then (ms since 1970) and calls `hooks.woke(index)`. Answers once it is started. */
  sleep?(index: number, dueAt: number): Promise<unknown>;
  /** Grows with every durable write that the library sent. */
  flushes?(): number;
  /** Ours only: starts a run of so many steps, of which the last one never ends. Answers when that one has begun. */
  hang?(steps: number): Promise<{ readonly freeAfterMs: number }>;
  /** Ours only: begins to work, and answers when the hanging run's last step has begun again. */
  recover?(): Promise<Recovered>;
  /** A server that only this contender uses. */
  readonly serverPid?: number;
  close(): Promise<void>;
}

/** What the process is asked on its standard input, a line of JSON each, and what it answers on its output. */
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
  /** Since 1970, for counters that others keep. */
  readonly fromMs: number;
  readonly untilMs: number;
  /** Requests to the database that were waited for. */
  readonly roundTrips: number;
  readonly flushes: number | null;
}

/** Times between the bodies of steps that follow each other. */
export interface LongSample {
  readonly steps: number;
  readonly totalMs: number;
  readonly stepMs: number;
  readonly firstStepMs: number;
  readonly lastStepMs: number;
}

export interface Recovered {
  /** From the start of the new worker until the step that was interrupted has begun again. */
  readonly resumedMs: number;
}

export interface SleepPlan {
  readonly runs: number;
  /** From the first due time to the last. */
  readonly spreadMs: number;
  /** Until the first due time: all have to be asleep before it. */
  readonly leadMs: number;
}

/** The first was due before all were started: nothing was measured. */
export interface StartedLate {
  /** To start them all; after a rehearsal that was late already, as much as its part of them lets expect. */
  readonly neededMs: number;
}

export interface SleepSample extends SleepPlan {
  /** How long it took to start them all. */
  readonly startedMs: number;
  readonly rssBytes: number;
  readonly heapBytes: number;
  readonly woken: number;
  readonly lateP50Ms: number;
  readonly lateP99Ms: number;
  readonly lateMaxMs: number;
}
