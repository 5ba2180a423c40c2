import { Program } from "../kit/program.js";
import type { Scene } from "../kit/scene.js";
import type { Part, Said, Told } from "./programs/process.js";

/** A process that starts runs and works on them, as the test says. It is gone at the end of the scene. */
export class Process {
  readonly #program: Program<Said, Told>;

  private constructor(program: Program<Said, Told>) {
    this.#program = program;
  }

  /** Resolves when it is ready. */
  static async of(scene: Scene, part: Omit<Part, "url">): Promise<Process> {
    const url = scene.on === "sqlite" && part.dies ? `${scene.url}?driver=@photostructure/sqlite` : scene.url;
    const args = [JSON.stringify({ ...part, url } satisfies Part)];
    const program = new Program<Said, Told>("workflow/programs/process", args, { onEnd: () => scene.onEnd(() => program.kill()) });
    const process = new Process(program);
    await process.says("ready");
    return process;
  }

  tell(told: Told): void {
    this.#program.send(told);
  }

  /** The next thing of this kind that it says; rejects when it ends without having said it. */
  async says<Kind extends Said["say"]>(kind: Kind): Promise<Extract<Said, { say: Kind }>> {
    return await this.#program.next((said): said is Extract<Said, { say: Kind }> => said.say === kind);
  }

  signal(name: NodeJS.Signals): void {
    this.#program.child.kill(name);
  }

  async end(name: NodeJS.Signals): Promise<void> {
    await this.#program.kill(name);
  }
}
