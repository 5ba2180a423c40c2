import { type ChildProcess, fork } from "node:child_process";
import type { TestContext } from "vitest";

interface Program {
  readonly program: URL;
  readonly args: readonly string[];
  readonly processes: number;
  /** Options of Node itself. */
  readonly execArgv?: readonly string[];
}

/** Processes of one program that are restarted whenever they die, as by a supervisor, until the test ends. */
export class Supervised {
  deaths = 0;
  #stopped = false;
  readonly #program: URL;
  readonly #args: readonly string[];
  readonly #execArgv: readonly string[];
  readonly #fleet = new Set<ChildProcess>();

  constructor({ onTestFinished }: Pick<TestContext, "onTestFinished">, { program, args, processes, execArgv = [] }: Program) {
    this.#program = program;
    this.#args = args;
    this.#execArgv = execArgv;
    for (let i = 0; i < processes; i += 1) this.#spawn();
    onTestFinished(() => this.stop());
  }

  #spawn(): void {
    const child = fork(this.#program, this.#args, { execArgv: [...this.#execArgv], stdio: ["ignore", "ignore", "ignore", "ipc"] });
    this.#fleet.add(child);
    child.once("exit", () => {
      this.#fleet.delete(child);
      if (this.#stopped) return;
      this.deaths += 1;
      this.#spawn();
    });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    const ends = [...this.#fleet].map((child) => new Promise<void>((end) => void child.once("exit", () => end())));
    for (const child of this.#fleet) child.kill("SIGKILL");
    await Promise.all(ends);
  }
}
