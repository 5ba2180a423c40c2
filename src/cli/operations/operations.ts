import type { State } from "../../core/ledger/record.js";
import type { RunStatus } from "../../core/runs/run.js";
import type { Attributes } from "../../core/values/attributes.js";
import type { ActionResult } from "../../exports/workflow/api.js";

/**
 * What the command line does to a system: list, show, act. It is done on a store (`local.ts`) or by the HTTP API of a server (`remote.ts`), with the same answers: plain
 * JSON, times as texts. Commands parse, ask and print, and have no logic of their own.
 */
export interface Operations {
  readonly runs: RunOperations;
  readonly keys: KeyOperations;
  /** Of graphs and outboxes; with `inbox`, those of the inbox of this consumer. */
  deadLetters(inbox?: string): LetterOperations;
  workers(): Promise<readonly WorkerRow[]>;
  log(query: LogQuery): Promise<readonly LogRow[]>;
}

interface RunOperations {
  list(query: RunQuery): Promise<RunRows>;
  /** The number of runs by status. */
  count(filter: RunFilter): Promise<RunCounts>;
  /** Undefined: not found. `values`: with the arguments and the result, which may be confidential. */
  read(id: string, options?: { readonly values?: boolean }): Promise<RunDetails | undefined>;
  journal(id: string, page: { readonly after?: number; readonly limit?: number }): Promise<readonly JournalRow[]>;
  act(action: RunAction, id: string, options: ActOptions & Facts): Promise<ActionResult & Facts>;
  start(request: StartRequest): Promise<{ readonly runId: string } & Facts>;
  deliver(
    delivery: { readonly token: string; readonly payload: unknown; readonly key?: string },
    options: ActOptions,
  ): Promise<ActionResult>;
}

interface KeyOperations {
  list(query: KeyQuery): Promise<Page<KeyRow>>;
  /** Undefined: not found. */
  read(ref: KeyRef): Promise<KeyDetails | undefined>;
  act(action: KeyAction, ref: KeyRef, options: ActOptions & Facts): Promise<{ readonly state: State; readonly repeated: boolean } & Facts>;
}

export interface LetterOperations {
  list(query: LetterQuery): Promise<readonly LetterRow[]>;
  /** Undefined: not found. */
  read(id: string): Promise<LetterDetails | undefined>;
  /** False: not found. */
  act(action: LetterAction, id: string, options: ActOptions): Promise<boolean>;
}

/** Members that only some answers or actions have. */
export type Facts = Readonly<Record<string, unknown>>;

type RunAction = "cancel" | "terminate" | "pause" | "resume" | "wake" | "retry" | "fork" | "resolve" | "delete";
export type KeyAction = "resolve" | "release" | "erase";
type LetterAction = "retry" | "discard";

/** What every action takes. The actor is the user of this process, or the one that the server knows. */
export interface ActOptions {
  readonly actionId?: string;
  readonly reason?: string;
  readonly dryRun?: boolean;
  readonly ifStatus?: RunStatus;
}

interface Page<Row> {
  readonly items: readonly Row[];
  readonly cursor?: string;
}

export interface RunFilter {
  readonly idPrefix?: string;
  readonly workflow?: string;
  readonly status?: RunStatus;
  readonly parentId?: string;
  readonly scope?: string;
  readonly createdAfter?: Date;
  readonly createdBefore?: Date;
  readonly endedAfter?: Date;
  readonly endedBefore?: Date;
  readonly errorName?: string;
  readonly errorCode?: string;
  readonly attribute?: { readonly name: string; readonly value: string | number | boolean };
  readonly needsPerson?: true;
}

interface RunQuery extends RunFilter {
  readonly limit?: number;
  readonly cursor?: string;
}

export interface RunRow {
  readonly id: string;
  readonly workflow: string;
  readonly status: RunStatus;
  readonly trouble?: string;
  readonly createdAt: string;
  readonly startedAt?: string;
  readonly completedAt?: string;
  readonly owner?: string;
  readonly parentId?: string;
  readonly needsPerson: boolean;
  readonly unsettled: number;
  readonly scope?: string;
  readonly attributes?: Attributes;
  readonly error?: RunErrorText;
}

export type RunRows = Page<RunRow>;

/** Without the role `values`, a server leaves the message out. */
export interface RunErrorText {
  readonly name: string;
  readonly code?: string | number;
  readonly message?: string;
}

/** Numbers of runs by status. `capped`: there are more. */
export type RunCounts = Readonly<Record<string, { readonly count: number; readonly capped: boolean }>>;

export interface RunDetails extends RunRow {
  readonly deadlineAt?: string;
  readonly args?: unknown;
  readonly result?: unknown;
}

export interface JournalRow {
  readonly seq: number;
  readonly index: number;
  readonly type: string;
  readonly id: string;
  readonly at: string;
  readonly stepId?: string;
  readonly attempt?: number;
  readonly detail?: readonly unknown[];
}

interface StartRequest {
  readonly workflow: string;
  readonly args: readonly unknown[];
  readonly id?: string;
  readonly scope?: string;
  readonly attributes?: Attributes;
  readonly timeoutMs?: number;
}

export interface KeyRef {
  readonly scope: string;
  readonly key: string;
}

interface KeyQuery {
  readonly scope?: string;
  readonly state?: State;
  readonly prefix?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

export interface KeyRow extends KeyRef {
  readonly state: State;
  readonly attempt: number;
  readonly effect: string;
  readonly startedAt?: string;
  readonly settledAt?: string;
}

export interface KeyDetails extends KeyRow {
  readonly value?: unknown;
  readonly error?: { readonly name: string; readonly message: string };
  readonly attempts: readonly KeyAttempt[];
}

interface KeyAttempt {
  readonly attempt: number;
  readonly startedAt: string;
  readonly endedAt?: string;
  readonly verdict: string;
  readonly owner?: string;
  /** A server does not show owners, which may settle a key, but names that derive from them. */
  readonly ownerName?: string;
  readonly note?: string | null;
}

export interface LetterQuery {
  readonly flow?: string;
  readonly queue?: string;
  readonly limit?: number;
  readonly before?: string;
}

export interface LetterRow {
  readonly id: string;
  /** The flow of a graph, `outbox:name`, or `inbox:consumer`. */
  readonly flow: string;
  readonly queue: string;
  readonly edge: string;
  readonly key?: string;
  readonly attempts: number;
  readonly deadAt: string;
  readonly error: { readonly code: string; readonly message?: string };
}

export interface LetterDetails extends LetterRow, Facts {
  readonly payload?: unknown;
  readonly history: readonly {
    readonly attempt: number;
    readonly at: string | number;
    readonly ms: number;
    readonly code: string;
    readonly message: string;
  }[];
}

interface WorkerRow {
  readonly id: string;
  readonly workflows: readonly string[];
  readonly version?: string | null;
  readonly startedAt: string | number;
  readonly seenAt: string | number;
  readonly live: boolean;
  /** The runs that it has now. A server may leave them out. */
  readonly runs?: readonly { readonly id: string }[];
  readonly hasMoreRuns?: boolean;
}

interface LogQuery {
  readonly runId?: string;
  readonly before?: number;
  readonly limit?: number;
}

export interface LogRow {
  readonly no: number;
  readonly actionId: string;
  readonly at: string;
  readonly actor: string;
  readonly action: string;
  readonly runId: string;
  readonly reason?: string;
  readonly answer?: unknown;
}
