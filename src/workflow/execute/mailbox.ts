import type { Mail } from "../../core/runs/run.js";
import type { Draft } from "../journal/draft.js";
import { resolutionIn } from "../journal/resolution.js";
import type { ExecutionState } from "./state.js";

/** The run that the mail is for. */
interface AddressedRun {
  readonly state: ExecutionState;
  readonly draft: Pick<Draft, "consume" | "record">;
  now(): number;
  takeMail(mail: Mail): void;
}

interface MailboxOptions {
  readonly mail: readonly Mail[];
  /** Mail up to this one was taken in before. */
  readonly consumed: number;
  /** Mail after this one was counted as taken in, and was not. */
  readonly parked: number | undefined;
}

/** The mail of a run: what came from outside. It is taken in when the code has got all that the journal has. */
export class Mailbox {
  readonly #run: AddressedRun;
  readonly #consumedBefore: number;
  /** Mail that came before the run was live. */
  #unread: readonly Mail[];
  #heard: number;

  constructor(run: AddressedRun, { mail, consumed, parked }: MailboxOptions) {
    this.#run = run;
    this.#consumedBefore = consumed;
    this.#unread = mail;
    this.#heard = parked ?? consumed;
  }

  receive(mail: readonly Mail[]): void {
    if (this.#run.state !== "live") {
      this.#unread = [...this.#unread, ...mail];
      return;
    }
    for (const each of mail) {
      if (each.seq <= this.#heard) continue;
      this.#heard = each.seq;
      this.#run.takeMail(each);
    }
  }

  /** The run is live now. */
  open(): void {
    this.receive(this.#unread);
    this.#unread = [];
  }

  /** A person has accepted this call, and the journal does not say so yet. */
  accepts(id: string): boolean {
    return this.#unread.some(({ kind, payload }) => kind === "resolve" && resolutionIn(payload).accept === id);
  }

  /** It is taken in with the entry that is drafted. Mail that was put aside has been taken in before. */
  consume(seq: number): void {
    this.#run.draft.consume(Math.max(seq, this.#consumedBefore));
  }

  /** Taken in without its being read: else it would make the run due again, at once and without end. */
  park(): void {
    const { draft } = this.#run;
    const last = this.#unread.at(-1)?.seq ?? 0;
    if (last <= this.#consumedBefore) return;
    draft.record({ type: "park", at: this.#run.now(), mail: this.#heard });
    draft.consume(last);
  }

  /** The last mail that came here. */
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
