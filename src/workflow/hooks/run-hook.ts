import { decode } from "../../core/values/codec.js";
import { decodeError } from "../../core/values/stored-error.js";
import { HookConflictError } from "../define/errors.js";
import type { Hook } from "../define/hook.js";
import type { Delivery } from "../journal/event.js";
import type { Draft } from "../journal/writer/draft.js";
import { pendingForever } from "../replay/requests.js";
import type { ServingRun } from "../replay/serving-run.js";

/** The run that has the hook. */
export interface HookedRun extends ServingRun {
  readonly draft: Pick<Draft, "changeHook">;
}

interface HookFacts {
  readonly token: string;
  /** The token as the store has it. */
  readonly storedAs: string;
  readonly url: string;
  /** The hook is in the journal: an earlier owner of the run created it. */
  readonly known: boolean;
}

/** One hook of a run: the object that workflow code uses. */
export class RunHook implements Hook, HookFacts {
  readonly token: string;
  readonly storedAs: string;
  readonly url: string;
  readonly known: boolean;
  /** True while it is unknown whether the token was free. */
  pending = true;
  readonly #run: HookedRun;
  readonly #id: string;
  readonly #payloads: unknown[] = [];
  readonly #waiting: { readonly resolve: (value: unknown) => void; readonly reject: (error: Error) => void }[] = [];
  /** How many of those were waiting when the run began to be cancelled. */
  #stopped = 0;
  #disposed = false;
  #conflict: HookConflictError | undefined;
  #asked: ((conflict: HookConflictError | null) => void)[] = [];
  #isAnswered = false;

  constructor(run: HookedRun, id: string, { token, storedAs, url, known }: HookFacts) {
    this.#run = run;
    this.#id = id;
    this.token = token;
    this.storedAs = storedAs;
    this.url = url;
    this.known = known;
  }

  get open(): boolean {
    return !this.#disposed && !this.hasConflict;
  }

  get hasConflict(): boolean {
    return this.#conflict !== undefined;
  }

  /** It is now known whether the token was free. `holder`: in a conflict, the run that has the token. */
  settle(conflict: boolean, holder?: string): void {
    this.pending = false;
    if (!conflict && this.#asked.length === 0) return;
    this.#run.arrivals.add({ type: "hooked", id: this.#id, at: this.#run.now(), conflict, run: holder });
  }

  /** The code waits for a payload. */
  get isAwaited(): boolean {
    return this.open && this.#waiting.length > 0;
  }

  /** The run is being cancelled: what waits now will be rejected; what waits later gets payloads as usual. */
  stop(): void {
    this.#stopped = this.#waiting.length;
  }

  /** Handles a delivery: a payload, or the answer whether the token was free. */
  answer(event: Delivery): void {
    if (event.type === "got") {
      const payload = decode(event.payload);
      const waiter = this.#waiting.shift();
      if (waiter) waiter.resolve(payload);
      else this.#payloads.push(payload);
    }
    if (event.type === "cancelled") for (const waiter of this.#waiting.splice(0, this.#stopped)) waiter.reject(decodeError(event.error));
    if (event.type === "hooked") {
      this.pending = false;
      this.#isAnswered = true;
      if (event.conflict) this.#conflict = new HookConflictError(this.token, event.run);
      for (const answer of this.#asked.splice(0)) answer(this.#conflict ?? null);
      if (this.#conflict) for (const waiter of this.#waiting.splice(0)) waiter.reject(this.#conflict);
    }
  }

  then<A = unknown, B = never>(
    resolve?: ((value: unknown) => A | PromiseLike<A>) | null,
    reject?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): PromiseLike<A | B> {
    return this.#next().then(resolve, reject);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<unknown> {
    while (!this.#disposed) yield await this.#next();
  }

  getConflict(): Promise<HookConflictError | null> {
    if (this.#isAnswered) return Promise.resolve(this.#conflict ?? null);
    const answer = new Promise<HookConflictError | null>((resolve) => void this.#asked.push(resolve));
    if (!this.pending) this.settle(false);
    return answer;
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    const { requests, draft } = this.#run;
    const asked = requests.ask(`drop ${this.#id}`, () => ({ type: "drop", id: this.#id, at: this.#run.now() }));
    if (asked && !asked.known) draft.changeHook({ drop: this.storedAs });
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #next(): Promise<unknown> {
    if (this.#conflict) return Promise.reject(this.#conflict);
    if (this.#payloads.length > 0) return Promise.resolve(this.#payloads.shift());
    if (this.#disposed) return pendingForever();
    return new Promise((resolve, reject) => void this.#waiting.push({ resolve, reject }));
  }
}
