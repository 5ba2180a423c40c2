import type { ChildProcess } from "node:child_process";
import { setMaxListeners } from "node:events";
import { startProcess } from "./lifeline.js";
import type { Order, Receipt } from "./order.js";
import type { Reply } from "./shop-worker.js";

interface ShopOptions {
  readonly workers: number;
  readonly storeUrl: string;
  readonly providerUrl: string;
  /** The shop closes when the run ends, and ends the run if it cannot work. */
  readonly run: AbortController;
}

interface Request {
  readonly resolve: (receipt: Receipt) => void;
  readonly reject: (error: Error) => void;
}

/**
 * The workers, and the interface for customers. A worker is starting, then ready, then dead; a dead worker is replaced until the
 * shop closes.
 */
export class Shop {
  readonly counts = { requests: 0, replays: 0, kills: 0 };
  /** Errors that live workers returned instead of a receipt. */
  readonly errors: string[] = [];
  /** Aborts when the shop closes. */
  readonly signal: AbortSignal;
  readonly #closing = new AbortController();
  readonly #options: ShopOptions;
  /** Open requests of each worker, starting or ready. */
  readonly #open = new Map<ChildProcess, Map<number, Request>>();
  #ready: ChildProcess[] = [];
  #waiting: (() => void)[] = [];

  constructor(options: ShopOptions) {
    this.#options = options;
    this.signal = AbortSignal.any([options.run.signal, this.#closing.signal]);
    // Every waiting customer adds a listener, one for each order.
    setMaxListeners(0, this.signal);
    this.signal.addEventListener("abort", () => this.#wakeWaiting());
    for (let i = 0; i < options.workers; i++) this.#hire();
  }

  /** Resolves when every worker is ready for the first time. */
  async opened(): Promise<void> {
    while (this.#ready.length < this.#options.workers) await this.#change();
  }

  /** Sends a request to the next worker. Rejects if the worker dies first or returns an error. */
  async request(order: Order): Promise<Receipt> {
    const worker = await this.#nextWorker();
    const id = ++this.counts.requests;
    return await new Promise((resolve, reject) => {
      this.#open.get(worker)?.set(id, { resolve, reject });
      // Sending to a worker that was just killed fails; its exit rejects the request.
      worker.send({ id, order }, () => {});
    });
  }

  /** Sends SIGKILL to a random worker. Never to the only one: on a slow machine no order would finish. */
  killOne(): void {
    if (this.#ready.length < 2) return;
    this.#ready[Math.floor(Math.random() * this.#ready.length)]?.kill("SIGKILL");
  }

  close(): void {
    this.#closing.abort();
  }

  #hire(): void {
    const { storeUrl, providerUrl } = this.#options;
    const worker = startProcess("shop-worker", [storeUrl, providerUrl], this.signal);
    this.#open.set(worker, new Map());
    worker.on("message", (message: Reply | { readonly ready: true }) => {
      if ("ready" in message) this.#welcome(worker);
      else this.#answer(worker, message);
    });
    worker.on("exit", (code, signal) => this.#replace(worker, code, signal));
  }

  #welcome(worker: ChildProcess): void {
    this.#ready.push(worker);
    this.#wakeWaiting();
  }

  #answer(worker: ChildProcess, reply: Reply): void {
    const request = this.#open.get(worker)?.get(reply.id);
    this.#open.get(worker)?.delete(reply.id);
    if (reply.status === "error") {
      this.errors.push(reply.message);
      request?.reject(new Error(reply.message));
      return;
    }
    if (reply.status === "replayed") this.counts.replays += 1;
    request?.resolve(reply.receipt);
  }

  #replace(worker: ChildProcess, code: number | null, signal: NodeJS.Signals | null): void {
    const requests = this.#open.get(worker);
    this.#open.delete(worker);
    this.#ready = this.#ready.filter((other) => other !== worker);
    // A worker that exits by itself is broken, and its replacement would be, too. Its error is on stderr.
    if (code !== null) this.#options.run.abort(new Error(`a shop worker ended by itself with exit code ${code}`));
    if (!this.signal.aborted) {
      if (signal === "SIGKILL") this.counts.kills += 1;
      this.#hire();
    }
    for (const { reject } of requests?.values() ?? []) reject(new Error("the worker died"));
  }

  /** Round robin, so that two concurrent requests go to two workers, and a retry goes to another worker. */
  async #nextWorker(): Promise<ChildProcess> {
    for (;;) {
      const worker = this.#ready.shift();
      if (worker === undefined) {
        await this.#change();
      } else {
        this.#ready.push(worker);
        return worker;
      }
    }
  }

  /** Resolves when one more worker is ready; rejects when the shop closes. */
  async #change(): Promise<void> {
    if (!this.signal.aborted) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.signal.throwIfAborted();
  }

  #wakeWaiting(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}
