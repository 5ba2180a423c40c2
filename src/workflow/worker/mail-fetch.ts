import type { Mail } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import type { Starts } from "./starts.js";

/** Minimum delay between two reads of the mail of all runs, while other processes keep writing. */
const mailEveryMs = 100;

/** A run in memory that may receive mail. */
interface AddressedRun {
  readonly id: string;
  readonly gone: boolean;
  readonly mailbox: { readonly heard: number; receive(mail: readonly Mail[]): void };
}

interface MailFetchOptions {
  readonly store: Store;
  readonly live: ReadonlyMap<string, AddressedRun>;
  /** Runs that are being started here. */
  readonly starts: Pick<Starts, "has" | "over">;
  /** Called if mail has made a run due that has left this worker. */
  readonly claimDue: () => void;
}

/** Fetches mail for runs that are in memory. */
export class MailFetch {
  readonly #options: MailFetchOptions;
  #isScheduled = false;
  /** Their mail is read as soon as their start is saved. */
  readonly #delayed = new Set<AddressedRun>();
  #fetchedAt = Number.NEGATIVE_INFINITY;

  constructor(options: MailFetchOptions) {
    this.#options = options;
  }

  /** The store has changed: there may be mail for any run here, also for a run whose step is running. */
  fetchAll(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const { store, live } = this.#options;
    const { clock } = store;
    const go = () => {
      this.#isScheduled = false;
      this.#fetchedAt = clock.now();
      for (const run of live.values()) void this.fetch(run);
    };
    clock.after(Math.max(0, this.#fetchedAt + mailEveryMs - clock.now()), go, true);
  }

  async fetch(run: AddressedRun): Promise<void> {
    const { store, starts, claimDue } = this.#options;
    // Until the start of this run is saved, the store may have another run with the same id: its mail is not for this one.
    if (starts.has(run.id)) {
      if (this.#delayed.has(run)) return;
      this.#delayed.add(run);
      await starts.over(run.id);
      this.#delayed.delete(run);
      if (run.gone) return;
    }
    try {
      const mail = await store.runs.mail(run.id, run.mailbox.heard);
      if (!run.gone) run.mailbox.receive(mail);
      // The run has left meanwhile, and its mail has made it due.
      else if (mail.length > 0) claimDue();
    } catch {
      // The next renewal reports the mail again.
    }
  }
}
