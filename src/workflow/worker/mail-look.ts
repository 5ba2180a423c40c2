import type { Store } from "../../core/store/store.js";
import type { Execution } from "../execute/execution.js";

/** How often the mail of all runs here is looked at, when some other process writes and writes. */
const mailEveryMs = 100;

interface MailReader {
  readonly store: Store;
  readonly live: ReadonlyMap<string, Execution>;
  /** A run that has left is due again. */
  readonly due: () => void;
}

/** Brings runs that are in memory what came for them from outside. */
export class MailLook {
  readonly #reader: MailReader;
  #scheduled = false;
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(reader: MailReader) {
    this.#reader = reader;
  }

  /** Somebody has written something: it may be mail for any run here, also for one whose step is under way. */
  all(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    const { store, live } = this.#reader;
    const { clock } = store;
    const go = () => {
      this.#scheduled = false;
      this.#lookedAt = clock.now();
      for (const execution of live.values()) void this.of(execution);
    };
    clock.after(Math.max(0, this.#lookedAt + mailEveryMs - clock.now()), go, true);
  }

  async of(execution: Execution): Promise<void> {
    try {
      const mail = await this.#reader.store.runs.mail(execution.id, execution.mailbox.heard);
      if (!execution.gone) execution.mailbox.receive(mail);
      // It has left meanwhile, and its mail has made it due.
      else if (mail.length > 0) this.#reader.due();
    } catch {
      // The next renewal tells of it again.
    }
  }
}
