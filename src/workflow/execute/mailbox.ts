import type { Mail } from "../../core/runs/run.js";
import { resolutionIn } from "../journal/mail/resolution.js";
import type { Draft } from "../journal/writer/draft.js";
import type { ExecutionState } from "./state.js";

/** The run that the mail is for. */
interface AddressedRun {
  readonly state: ExecutionState;
  readonly draft: Pick<Draft, "consume" | "record">;
  now(): number;
  takeMail(mail: Mail): void;
  isBeforeRetry(mail: Mail): boolean;
}

interface MailboxOptions {
  readonly mail: readonly Mail[];
  /** Mail up to this number was consumed before. */
  readonly consumed: number;
  /** If the run was set aside: mail after this number was marked as consumed without being read. */
  readonly parked: number | undefined;
}

/** Mail of a run: input from other processes. It is read after the replay, when the run is live. */
export class Mailbox {
  readonly #run: AddressedRun;
  readonly #consumedBefore: number;
  /** Mail that arrived before the run was live. */
  #unread: readonly Mail[];
  #heard: number;
  /** Number of the last mail whose consequences are recorded. */
  #taken: number;
  readonly #wasParked: boolean;

  constructor(run: AddressedRun, { mail, consumed, parked }: MailboxOptions) {
    this.#run = run;
    this.#consumedBefore = consumed;
    this.#unread = mail;
    this.#heard = parked ?? consumed;
    this.#taken = this.#heard;
    this.#wasParked = parked !== undefined;
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

  /** An operator has accepted this call, and the acceptance is not journaled yet. */
  accepts(id: string): boolean {
    return this.#unread.some(({ kind, payload }) => kind === "resolve" && resolutionIn(payload).accept === id);
  }

  /** Later mail than this was already marked as consumed, because the run was set aside before its code had received it. */
  hasLaterConsumed(seq: number): boolean {
    return seq < this.#consumedBefore;
  }

  /** The next entry consumes this mail. The number never goes back: mail of a run that was set aside was already marked as consumed. */
  consume(seq: number): void {
    this.#taken = Math.max(this.#taken, seq);
    this.#run.draft.consume(Math.max(seq, this.#consumedBefore));
  }

  /**
   * The run ends. Of the mail that was marked as consumed when the run was set aside, it may not have read all: a retry reads the rest. Undefined if it has
   * read all.
   */
  get leftAside(): number | undefined {
    return this.#wasParked && this.#taken < this.#consumedBefore ? this.#taken : undefined;
  }

  /** Marks the mail as consumed without reading it: otherwise it would make the run due again immediately, without end. */
  park(): void {
    const { draft } = this.#run;
    const last = this.#unread.at(-1)?.seq ?? 0;
    if (last <= this.#consumedBefore) return;
    draft.record({ type: "park", at: this.#run.now(), mail: this.#heard });
    draft.consume(last);
  }

  /** Number of the last mail that was read. */
  get heard(): number {
    return this.#heard;
  }

  get hasUnread(): boolean {
    return this.#unread.length > 0;
  }

  /** An operator has requested another try. */
  get hasUnreadWake(): boolean {
    return this.#unread.some(({ kind }) => kind === "wake");
  }

  /** Requests to end the run that are not read yet. */
  get unreadCancels(): readonly Mail[] {
    return this.#unread.filter((mail) => mail.kind === "cancel" && !this.#run.isBeforeRetry(mail));
  }
}
