import type { Mail, RunRecord } from "../../core/runs/run.js";
import { resolutionIn } from "../client/resolution.js";
import type { Execution } from "./execution.js";

/** The mail of a run: what came from outside. It is taken in when the code was told all that the journal has. */
export class Mailbox {
  readonly #execution: Execution;
  readonly #consumedBefore: number;
  /** What came before that. */
  #unread: readonly Mail[];
  #heard: number;

  /** `parked`: mail after this one was counted as taken in, and was not. */
  constructor(execution: Execution, unread: readonly Mail[], { consumed }: Pick<RunRecord, "consumed">, parked: number | undefined) {
    this.#execution = execution;
    this.#consumedBefore = consumed;
    this.#unread = unread;
    this.#heard = parked ?? consumed;
  }

  receive(mail: readonly Mail[]): void {
    if (this.#execution.state !== "live") {
      this.#unread = [...this.#unread, ...mail];
      return;
    }
    for (const each of mail) {
      if (each.seq <= this.#heard) continue;
      this.#heard = each.seq;
      this.#take(each);
    }
  }

  /** The run is live now. */
  open(): void {
    this.receive(this.#unread);
    this.#unread = [];
  }

  #take({ seq, kind, about, payload }: Mail): void {
    const { hooks, children, sleeps, calls, deliveries } = this.#execution;
    switch (kind) {
      case "hook":
        return hooks.receive(about ?? "", payload ?? "", seq);
      case "child":
        return children.ended(about ?? "", payload ?? "[]", seq);
      case "wake":
        return deliveries.decide(() => {
          const woken = payload === null ? sleeps.wakeAll() : sleeps.wake(JSON.parse(payload) as string[]);
          return woken.map((event) => ({ event }));
        }, seq);
      case "cancel":
        return deliveries.add({ type: "cancel", id: "run", at: this.#execution.now() }, seq);
      case "resolve": {
        const { attempt, to, accept } = resolutionIn(payload);
        return deliveries.decide(() => {
          if (accept === undefined) return calls.by(about ?? "")?.resolve(attempt, to) ?? [];
          this.#execution.accept(accept);
          return [];
        }, seq);
      }
    }
  }

  /** A person has accepted this call, and the journal does not say so yet. */
  accepts(id: string): boolean {
    return this.#unread.some(({ kind, payload }) => kind === "resolve" && resolutionIn(payload).accept === id);
  }

  /** It is taken in with the entry that is drafted. Mail that was put aside has been taken in before. */
  consume(seq: number): void {
    this.#execution.draft.consume(Math.max(seq, this.#consumedBefore));
  }

  /** Taken in without its being read: else it would make the run due again, at once and for ever. */
  park(): void {
    const { draft } = this.#execution;
    const last = this.#unread.at(-1)?.seq ?? 0;
    if (last <= this.#consumedBefore) return;
    draft.record({ type: "park", at: this.#execution.now(), mail: this.#heard });
    draft.consume(last);
  }

  get heard(): number {
    return this.#heard;
  }

  get hasUnread(): boolean {
    return this.#unread.length > 0;
  }

  /** A person asks for one more try. */
  get hasUnreadWake(): boolean {
    return this.#unread.some(({ kind }) => kind === "wake");
  }

  get hasUnreadCancel(): boolean {
    return this.#unread.some(({ kind }) => kind === "cancel");
  }
}
