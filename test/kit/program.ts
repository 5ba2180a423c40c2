import { type ChildProcess, fork } from "node:child_process";

interface ProgramOptions {
  /** Kills the process at the end of a test: `onTestFinished`, or a scene's `onEnd`. */
  readonly onEnd: (end: () => void) => void;
  /** Another Node than the one that runs the tests. */
  readonly node?: string;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The bundle of a program (bundle-programs.ts): `bundleOf("flow/programs/worker")` is test/flow/programs/worker.ts. */
export function bundleOf(program: string): URL {
  return new URL(`../../.build/bundles/${program}.js`, import.meta.url);
}

/**
 * A process of a program, from its bundle: `new Program("flow/programs/worker", …)` runs test/flow/programs/worker.ts. The process
 * sends messages, which wait here until the test asks for the next one.
 */
export class Program<Sent = unknown, Received = unknown> {
  readonly child: ChildProcess;
  /** Resolves when the process has ended and all its output has arrived. */
  readonly ended: Promise<Ended>;
  readonly #sent: Sent[] = [];
  readonly #listeners = new Set<() => void>();
  #end: Ended | undefined;

  constructor(path: string, args: readonly string[], { onEnd, node }: ProgramOptions) {
    this.child = fork(bundleOf(path), args, {
      execArgv: [],
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      ...(node === undefined ? {} : { execPath: node }),
    });
    onEnd(() => void this.child.kill("SIGKILL"));
    const printed = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      this.child[name]?.setEncoding("utf8").on("data", (text: string) => {
        printed[name] += text;
      });
    }
    this.child.on("message", (message) => {
      this.#sent.push(message as Sent);
      this.#wake();
    });
    this.ended = new Promise((resolve) => {
      this.child.once("close", (code, signal) => {
        this.#end = { code, signal, ...printed };
        resolve(this.#end);
        this.#wake();
      });
    });
  }

  /** The next message, or the next one that `is` accepts. Rejects when the process has ended without it. */
  async next<Wanted extends Sent>(is: (message: Sent) => message is Wanted): Promise<Wanted>;
  async next(): Promise<Sent>;
  async next(is: (message: Sent) => boolean = () => true): Promise<Sent> {
    for (;;) {
      const at = this.#sent.findIndex(is);
      if (at >= 0) return this.#sent.splice(at, 1)[0] as Sent;
      if (this.#end) throw new Error(`the process ended (${this.#end.code ?? this.#end.signal}) without this message: ${this.#end.stderr}`);
      await new Promise<void>((resolve) => this.#listeners.add(resolve));
    }
  }

  send(message: Received): void {
    this.child.send(message as never);
  }

  /** Resolves when the process has ended. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<Ended> {
    this.child.kill(signal);
    return await this.ended;
  }

  #wake(): void {
    for (const listener of this.#listeners) listener();
    this.#listeners.clear();
  }
}
