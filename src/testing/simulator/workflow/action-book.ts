import { isDeepStrictEqual } from "node:util";
import type { MemoryRuns } from "../../../stores/memory/runs/table.js";
import type { ActionResult } from "../../../workflow/client/actions/action.js";
import { PromiseBroken } from "../observer.js";

interface Asked {
  readonly action: string;
  readonly run: string;
  readonly force: readonly string[];
  readonly answers: ActionResult[];
  refusals: number;
  /** Requests without an answer: they may still be done. */
  lost: number;
}

/** What operators have asked for, and what they were answered, by the id of the action. */
export class ActionBook {
  readonly #memory: Pick<MemoryRuns, "log">;
  readonly #asked = new Map<string, Asked>();
  refused = 0;

  constructor(memory: Pick<MemoryRuns, "log">) {
    this.#memory = memory;
  }

  get done(): number {
    return this.#memory.log.length;
  }

  newId(): string {
    return `action ${this.#asked.size + 1}`;
  }

  ask(id: string, action: string, run: string, force: readonly string[] = []): void {
    this.#asked.set(id, { action, run, force, answers: [], refusals: 0, lost: 0 });
  }

  /** True if this is the first answer. */
  answer(id: string, answer: ActionResult): boolean {
    const asked = this.#of(id);
    asked.answers.push(answer);
    const [first] = asked.answers;
    const { repeated: _, ...now } = answer;
    const { repeated: __, ...then } = first ?? answer;
    // A dry run is not remembered: it answers for the state that it finds.
    if (!answer.dryRun && !isDeepStrictEqual(now, then))
      throw new PromiseBroken(`${id} (${asked.action}): answered ${JSON.stringify(now)} after ${JSON.stringify(then)}`);
    if (!answer.dryRun && asked.answers.filter(({ repeated }) => !repeated).length > 1)
      throw new PromiseBroken(`${id} (${asked.action}): two requests were both the first`);
    return asked.answers.length === 1;
  }

  forceOf(id: string): readonly string[] {
    return this.#asked.get(id)?.force ?? [];
  }

  lose(id: string): void {
    this.#of(id).lost += 1;
  }

  refuse(id: string, error: Error): void {
    const asked = this.#of(id);
    asked.refusals += 1;
    this.refused += 1;
    if (this.#memory.log.some((entry) => entry.id === id))
      throw new PromiseBroken(`${id} (${asked.action}) was done, but answered: ${error.message}`);
  }

  verify(): void {
    for (const [id, { action, run, answers, refusals, lost }] of this.#asked) {
      const logged = this.#memory.log.filter((entry) => entry.id === id);
      const what = `${id} (${action} of ${run})`;
      if (logged.length > 1) throw new PromiseBroken(`${what}: ${logged.length} entries in the operator log`);
      if (answers[0]?.dryRun) {
        if (logged.length > 0) throw new PromiseBroken(`${what}: a dry run is in the operator log`);
        continue;
      }
      if (answers.length > 0 && (logged[0]?.action !== action || logged[0].subject !== run))
        throw new PromiseBroken(`${what}: not in the operator log`);
      if (answers.length === 0 && refusals > 0 && lost === 0 && logged.length > 0)
        throw new PromiseBroken(`${what}: in the operator log, although it was refused`);
    }
  }

  #of(id: string): Asked {
    const asked = this.#asked.get(id);
    if (asked === undefined) throw new Error(`${id} was not asked for`);
    return asked;
  }
}
