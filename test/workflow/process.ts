import { Program } from "../kit/program.js";
import type { Scene } from "../kit/scene.js";
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

  signal(name: NodeJS.Signals): void {
    this.#program.child.kill(name);
  }

  async end(name: NodeJS.Signals): Promise<void> {
    await this.#program.kill(name);
  }
}
