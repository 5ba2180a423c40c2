import { decode } from "../../core/values/codec.js";
import { HookConflictError } from "../define/errors.js";
import type { Execution } from "../execute/execution.js";
import type { Delivery } from "../journal/event.js";
import { never } from "../replay/requests.js";

/**
 * Something from outside that a workflow waits for. Awaited, it gives the next payload; as an async iterable, one after
 * the other. Payloads that come while nobody awaits it are kept, in order.
 */
export interface Hook<Payload = unknown> extends PromiseLike<Payload>, AsyncIterable<Payload> {
  readonly token: string;
  /** The conflict, with the `runId` of the run that has the token, when the token belongs to another active hook; else null. */
  getConflict(): Promise<HookConflictError | null>;
  dispose(): void;
  [Symbol.dispose](): void;
}

interface HookFacts {
  readonly token: string;
  /** What the store knows it by. */
  readonly storedAs: string;
  readonly url: string;
  /** Made by an earlier owner. */
  readonly known: boolean;
}

/** One hook of a run, as its code has it in hand. */
export class RunHook implements Hook, HookFacts {
  readonly token: string;
  readonly storedAs: string;
  readonly url: string;
  readonly known: boolean;
  /** Whether its token was free is not known yet. */
  pending = true;
  readonly #execution: Execution;
  readonly #id: string;
  readonly #payloads: unknown[] = [];
  readonly #waiting: { readonly resolve: (value: unknown) => void; readonly reject: (error: Error) => void }[] = [];
  #disposed = false;
  #conflict: HookConflictError | undefined;
  #asked: ((conflict: HookConflictError | null) => void)[] = [];
  #told = false;

  constructor(execution: Execution, id: string, { token, storedAs, url, known }: HookFacts) {
    this.#execution = execution;
    this.#id = id;
    this.token = token;
    this.storedAs = storedAs;
    this.url = url;
    this.known = known;
  }

  get open(): boolean {
    return !this.#disposed && this.#conflict === undefined;
  }

  /** `holder`: the run that has the token, in a conflict. */
  made(conflict: boolean, holder?: string): void {
    this.pending = false;
    if (!conflict && this.#asked.length === 0) return;
    this.#execution.deliveries.add({ type: "hooked", id: this.#id, at: this.#execution.now(), conflict, run: holder });
  }

  tell(event: Delivery): void {
    if (event.type === "got") {
      const payload = decode(event.payload);
      const waiter = this.#waiting.shift();
      if (waiter) waiter.resolve(payload);
      else this.#payloads.push(payload);
    }
    if (event.type === "hooked") {
      this.pending = false;
      this.#told = true;
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
    if (this.#told) return Promise.resolve(this.#conflict ?? null);
    const answer = new Promise<HookConflictError | null>((resolve) => void this.#asked.push(resolve));
    if (!this.pending) this.made(false);
    return answer;
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    const execution = this.#execution;
    const asked = execution.requests.ask(`drop ${this.#id}`, () => ({ type: "drop", id: this.#id, at: execution.now() }));
    if (asked && !asked.known) execution.draft.changeHook({ drop: this.storedAs });
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #next(): Promise<unknown> {
    if (this.#conflict) return Promise.reject(this.#conflict);
    if (this.#payloads.length > 0) return Promise.resolve(this.#payloads.shift());
    if (this.#disposed) return never();
    return new Promise((resolve, reject) => void this.#waiting.push({ resolve, reject }));
  }
}
