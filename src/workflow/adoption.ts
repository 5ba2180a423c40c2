import { decode } from "../core/codec.js";
import { NotKnownError, UnreachableError } from "../core/errors.js";
import { hasEnded } from "../core/run.js";
import type { Claimed } from "../core/run-operation.js";
import { broughtBack, withLongValues } from "./aside.js";
import type { WorkflowDefinition } from "./define.js";
import { Execution } from "./execution.js";
import { History } from "./history.js";
import type { Host } from "./host.js";

/** When a run that could not be read here is tried again: whoever can may have started by then. */
const unreadableRetryMs = 60_000;

interface Adopter {
  readonly host: Host;
  readonly live: Map<string, Execution>;
  readonly workflow: (name: string) => WorkflowDefinition | undefined;
  readonly stopped: () => boolean;
}

/** Makes an execution of a run that the store has given us. */
export class Adoption {
  readonly #adopter: Adopter;
  readonly #reloading = new Set<string>();

  constructor(adopter: Adopter) {
    this.#adopter = adopter;
  }

  /** Whether the run is here, or on its way back here. */
  has(id: string): boolean {
    return this.#adopter.live.has(id) || this.#reloading.has(id);
  }

  async adopt(claimed: Claimed, heldAt: number): Promise<void> {
    const { host, live } = this.#adopter;
    const { run, lapsed, journal, mail: unread, hooks } = claimed;
    const workflow = this.#adopter.workflow(run.workflow);
    let history: History;
    let args: unknown[];
    try {
      history = new History(journal);
      history.deliveries = await withLongValues(host.store, run.id, history.deliveries);
      args = decode(await broughtBack(host.store, run.id, run.input)) as unknown[];
    } catch (error) {
      // When the store is away, the next renewal finds that the run is ours and not here.
      if (error instanceof UnreachableError || error instanceof NotKnownError) throw error;
      return await this.#putAside(claimed, error);
    }
    const mail = history.parked === undefined ? unread : await host.store.runs.mail(run.id, history.parked);
    if (workflow === undefined || live.has(run.id)) return;
    const seq = (journal.at(-1)?.seq ?? 0) + 1;
    const startedAt = run.startedAt ?? run.createdAt;
    const execution = new Execution({ host, workflow, run, args, startedAt, history, heldAt, seq, lapsed, mail, hooks });
    live.set(run.id, execution);
    execution.run();
  }

  /**
   * It can't be read here: no key for it, or a class that is not registered. Others may be able to. With mail that was not
   * taken in it would be due at once, again and again; so that one is kept until the next renewal gives it back.
   */
  async #putAside({ run, mail }: Claimed, error: unknown): Promise<void> {
    const { host } = this.#adopter;
    const why = `its input or journal cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    process.emitWarning(`run "${run.id}" is left alone: ${why}`, { type: "OnceflowWarning", code: "ONCEFLOW_RUN_UNREADABLE" });
    if (mail.length > 0) return;
    const then = { kind: "release", wakeAt: host.now() + unreadableRetryMs, status: "diverged", trouble: why } as const;
    const entry = { events: null, consumed: null, hooks: [], children: [], then };
    await host.store.commit({ run: { verb: "append", id: run.id, epoch: run.epoch, seq: 1, entry } });
  }

  /** Its predecessor wrote one more entry before it noticed. If the run is still ours, we go on from there. */
  async reload({ id, epoch, writer }: Execution): Promise<void> {
    const { host, stopped } = this.#adopter;
    this.#reloading.add(id);
    try {
      const now = await host.store.runs.load(id);
      if (now === undefined || hasEnded(now.run.status) || now.run.owner !== host.owner || now.run.epoch !== epoch) return;
      if (!stopped()) await this.adopt({ ...now, lapsed: true }, writer.heldAt);
    } catch {
      // The next renewal finds it again.
    } finally {
      this.#reloading.delete(id);
    }
  }
}
