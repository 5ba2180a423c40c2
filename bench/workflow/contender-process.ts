import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { excerpt } from "../../test/servers/process/command.js";
import type { Guard } from "../../test/servers/process/guard.js";
import type { Protocol, Verb } from "./contender.js";

export interface ProcessOptions {
  /** The path of the Node that runs the process. */
  readonly node: string;
  /** The name of a contender in child.ts, or the URL of a module. */
  readonly module: string;
  readonly url?: string;
  readonly folder: string;
  readonly countsRoundTrips?: boolean;
  readonly resting?: boolean;
  /** Kills the processes of this contender if our process dies. */
  readonly guard: Guard;
  /** A command that runs the command after it, such as strace. */
  readonly under?: readonly string[];
}

const program = fileURLToPath(new URL("./child.js", import.meta.url));
const closeMsMax = 20_000;
const exitMsMax = 2_000;
const openMsMax = 90_000;
const outputMax = 4_000;

/** An open contender in its own process. */
export class ContenderProcess {
  readonly #child: ChildProcess;
  readonly #guard: Guard;
  readonly #lines: AsyncIterator<string>;
  readonly #exit: Promise<unknown>;
  readonly #pids: number[] = [];
  /** The end of its output, for error messages. */
  #output = "";

  private constructor({ node, module, url, folder, countsRoundTrips = false, resting = false, guard, under = [] }: ProcessOptions) {
    const options = JSON.stringify({ ...(url === undefined ? {} : { url }), folder, countsRoundTrips, resting });
    const [command = node, ...args] = [...under, node, "--expose-gc", "--no-warnings", program, module, options];
    this.#child = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"] });
    this.#guard = guard;
    this.#watch(this.#child.pid);
    // If the process has ended, its exit event reports it.
    this.#child.stdin?.on("error", () => {});
    // If the process cannot be started, there is an error event instead of an exit.
    this.#exit = once(this.#child, "exit").catch(() => {});
    this.#child.stderr?.on("data", (chunk: Buffer) => this.#keepOutput(String(chunk)));
    this.#lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
  }

  static async open(options: ProcessOptions): Promise<ContenderProcess> {
    const opened = new ContenderProcess(options);
    try {
      const { serverPid } = await opened.ask("open", {}, openMsMax);
      opened.#watch(serverPid ?? undefined);
      return opened;
    } catch (error) {
      await opened.kill();
      throw error;
    }
  }

  async ask<V extends Verb>(verb: V, ask: Protocol[V]["ask"], boundMs: number): Promise<Protocol[V]["answer"]> {
    this.#child.stdin?.write(`${JSON.stringify({ verb, ask })}\n`);
    const timer = AbortSignal.timeout(boundMs);
    const late = once(timer, "abort").then(() => {
      throw new Error(`took longer than ${boundMs} ms to ${verb}${this.#after()}`);
    });
    return await Promise.race([this.#answer(verb), late]);
  }

  /** Lets the process close its resources, and kills it if it does not. */
  async close(): Promise<void> {
    await this.ask("close", {}, closeMsMax).catch(() => undefined);
    await Promise.race([this.#exit, delay(exitMsMax)]);
    await this.kill();
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exit;
    for (const pid of this.#pids) this.#guard.forget(pid);
  }

  async #answer<V extends Verb>(verb: V): Promise<Protocol[V]["answer"]> {
    for (;;) {
      const { value, done } = await this.#lines.next();
      if (done) throw new Error(`ended instead of answering to ${verb}${this.#after()}`);
      if (!value.startsWith(`{"verb":"${verb}"`)) {
        this.#keepOutput(`${value}\n`);
        continue;
      }
      const reply = JSON.parse(value) as { readonly answer: Protocol[V]["answer"] } | { readonly error: string };
      if ("error" in reply) throw new Error(reply.error);
      return reply.answer;
    }
  }

  #after(): string {
    return this.#output.trim() === "" ? "" : `; its output: ${excerpt(this.#output)}`;
  }

  #keepOutput(text: string): void {
    this.#output = (this.#output + text).slice(-outputMax);
  }

  #watch(pid: number | undefined): void {
    if (pid === undefined) return;
    this.#pids.push(pid);
    this.#guard.watch(pid);
  }
}
