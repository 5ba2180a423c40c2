import type { RunAnswer, RunBackend, RunOperation } from "../../../core/runs/operation.js";
import type { MemoryRuns } from "../../../stores/memory/runs/table.js";
import { PromiseBroken } from "../observer.js";

/**
 * Checks each operator's action at the store: one that is done has one new entry in the operator log, with its id; one that is refused, or was
 * done before, changes nothing: neither the run, nor its parent, their journals, hooks and mail, nor the log.
 */
export function withActionWatch(runs: RunBackend, memory: MemoryRuns, guard: (check: () => void) => void): RunBackend {
  return {
    ...runs,
    async flush(operations) {
      if (operations.every(({ verb }) => verb !== "act")) return await runs.flush(operations);
      const answers: (RunAnswer | "again")[] = [];
      for (const operation of operations) {
        const before = rowsOf(memory, operation);
        const logged = memory.log.length;
        const answering = runs.flush([operation]);
        // Read before other operations can come in between.
        const after = rowsOf(memory, operation);
        const entries = memory.log.slice(logged);
        const [answer] = await answering;
        if (answer !== undefined) answers.push(answer);
        guard(() => check(operation, answer, { isUnchanged: before === after, logged: entries.map(({ id }) => id) }));
      }
      return answers;
    },
  };
}

interface Effect {
  readonly isUnchanged: boolean;
  readonly logged: readonly string[];
}

function check(operation: RunOperation, answer: RunAnswer | "again" | undefined, { isUnchanged, logged }: Effect): void {
  if (operation.verb !== "act" || answer === undefined || answer === "again") return;
  const what = `${operation.log.action} of ${operation.log.subject} (${operation.log.id})`;
  const isDone = answer.kind === "acted" && !answer.repeated;
  if (isDone && `${logged}` !== operation.log.id) throw new PromiseBroken(`${what} was done, and the new log entries are [${logged}]`);
  if (isDone) return;
  const how = answer.kind === "acted" ? "was done before" : `was refused (${answer.kind})`;
  if (!isUnchanged) throw new PromiseBroken(`${what} ${how}, but it changed something`);
  if (logged.length > 0) throw new PromiseBroken(`${what} ${how}, but it is logged again`);
}

/** Everything of the run, of the run that the action is about, and of the parent. */
function rowsOf({ runs, journals, mailboxes, hooks }: MemoryRuns, operation: RunOperation): string {
  if (operation.verb !== "act") return "";
  const parent = runs.get(operation.id)?.parent ?? "";
  return JSON.stringify(
    [operation.id, operation.log.subject, parent].map((id) => [
      runs.get(id),
      journals.get(id)?.length,
      mailboxes.get(id)?.mail,
      [...hooks.values()].filter(({ run }) => run === id),
    ]),
  );
}
