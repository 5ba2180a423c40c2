import { type ChildProcess, fork } from "node:child_process";
import type { Part, Said, Told } from "./programs/process.js";
import type { Scene } from "./scene.js";

const program = new URL("../../.build/test/workflow/programs/process.js", import.meta.url);

/** A process of a scene: what it says is kept until somebody wants to hear it. It is gone at the end of the scene. */
export class Process {
  readonly #child: ChildProcess;
  readonly #said: Said[] = [];
  readonly #listeners = new Set<() => void>();
  #exited = false;

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.on("message", (said: Said) => this.#hear(() => this.#said.push(said)));
    child.once("exit", () =>
      this.#hear(() => {
        this.#exited = true;
      }),
    );
  }

  /** Resolves when it is ready. */
  static async of(scene: Scene, part: Omit<Part, "url">): Promise<Process> {
    const url = scene.on === "sqlite" && part.dies ? `${scene.url}?driver=@photostructure/sqlite` : scene.url;
    const stdio = ["ignore", "inherit", "inherit", "ipc"] as const;
    const child = fork(program, [JSON.stringify({ ...part, url } satisfies Part)], { execArgv: [], stdio: [...stdio] });
    const process = new Process(child);
    scene.onEnd(() => process.end("SIGKILL"));
    await process.says("ready");
    return process;
  }

  tell(told: Told): void {
    this.#child.send(told);
  }

  /** The next thing of this kind that it says; rejects when it ends without having said it. */
  async says<Kind extends Said["say"]>(kind: Kind): Promise<Extract<Said, { say: Kind }>> {
    for (;;) {
      const at = this.#said.findIndex(({ say }) => say === kind);
      if (at >= 0) return this.#said.splice(at, 1)[0] as Extract<Said, { say: Kind }>;
      if (this.#exited) throw new Error(`the process ended, and has not said "${kind}"`);
      await new Promise<void>((resolve) => this.#listeners.add(resolve));
    }
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  async end(name: NodeJS.Signals): Promise<void> {
    this.signal(name);
    while (!this.#exited) await new Promise<void>((resolve) => this.#listeners.add(resolve));
  }

  #hear(note: () => void): void {
    note();
    for (const listener of this.#listeners) listener();
    this.#listeners.clear();
  }
}
