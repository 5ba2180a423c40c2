import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { platform } from "node:os";
import { Program } from "../kit/program.js";
import type { Scene } from "../kit/scene.js";
import { until } from "../kit/until.js";
import type { Command, Part, Report } from "./programs/process.js";

/** A process that starts runs and works on them on the test's commands. It is killed at the end of the scene. */
export class Process {
  readonly #program: Program<Report, Command>;

  private constructor(program: Program<Report, Command>) {
    this.#program = program;
  }

  /** Resolves when the process is ready. */
  static async of(scene: Scene, part: Omit<Part, "url">): Promise<Process> {
    const url = scene.on === "sqlite" && part.dies ? `${scene.url}?driver=@photostructure/sqlite` : scene.url;
    const args = [JSON.stringify({ ...part, url } satisfies Part)];
    const program = new Program<Report, Command>("workflow/programs/process", args, { onEnd: () => scene.onEnd(() => program.kill()) });
    const process = new Process(program);
    await process.next("ready");
    return process;
  }

  send(command: Command): void {
    this.#program.send(command);
  }

  /** The next message of this kind; rejects if the process ends without sending one. */
  async next<Kind extends Report["kind"]>(kind: Kind): Promise<Extract<Report, { kind: Kind }>> {
    return await this.#program.next((report): report is Extract<Report, { kind: Kind }> => report.kind === kind);
  }

  /** Stops the process until SIGCONT. Resolves when it has stopped: before, it could still answer what the test does next. */
  async stall(): Promise<void> {
    this.send({ kind: "stall" });
    const pid = String(this.#program.child.pid);
    await until("the process has stopped", () => stateOf(pid).startsWith("T"));
  }

  signal(name: NodeJS.Signals): void {
    this.#program.child.kill(name);
  }

  async end(name: NodeJS.Signals): Promise<void> {
    await this.#program.kill(name);
  }
}

/** The state of a process as the kernel calls it. Linux is asked without `ps`, which small images do not have. */
function stateOf(pid: string): string {
  if (platform() !== "linux") return execFileSync("ps", ["-o", "state=", "-p", pid], { encoding: "utf8" });
  return readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, "");
}
