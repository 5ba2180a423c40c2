import type { Entry } from "../../../core/runs/operation.js";
import type { Mail, RunRecord } from "../../../core/runs/run.js";
import { decode } from "../../../core/values/codec.js";
import { storedParts } from "../../../workflow/journal/codec.js";
import { type AttemptEvent, type Delivery, type Event, isDelivery, isRequest } from "../../../workflow/journal/event.js";
import { stepIdOf } from "../../../workflow/journal/identity.js";
import { resolutionIn } from "../../../workflow/journal/resolution.js";
import { PromiseBroken } from "../observer.js";

interface StepFacts {
  /** Started entries. */
  attempts: number;
  /** The attempt whose outcome is unknown. */
  doubt: number | undefined;
  settled: boolean;
  /** How the attempts ended that a person, or a body after the end of the run, has spoken about. */
  readonly resolved: Set<number>;
  /** The run ended without it, and it needs nobody to look. */
  abandoned: boolean;
}

interface Taking {
  readonly events: readonly Event[];
  readonly entry: Entry;
  /** All that was ever sent to the run. */
  readonly mail: readonly Mail[];
  readonly now: number;
  readonly childOf: (id: string) => RunRecord | undefined;
}

/** What a journal says so far; each entry is checked against what came before it as it is written. */
export class JournalFacts {
  readonly #run: string;
  readonly steps = new Map<string, StepFacts>();
  /** What the code was told, in order, and by which entry of the journal. */
  readonly deliveries: { readonly event: Delivery; readonly entry: number }[] = [];
  readonly #sleeps = new Map<string, { readonly until: number; readonly heard: number }>();
  readonly #hooks = new Map<string, { readonly got: string[]; open: boolean }>();
  readonly #children = new Map<string, string>();
  #entries = 0;
  consumed = 0;
  /** Mail was put aside until the code matches again. */
  #parked = false;
  /** Mail after this one was put aside. */
  #parkedAfter: number | undefined;
  /** The code has asked for something. */
  asked = false;
  over = false;

  constructor(run: string) {
    this.#run = run;
  }

  take({ events, entry, mail, now, childOf }: Taking): void {
    const heard = this.consumed;
    // Mail that was put aside is taken in with the entry that says so: a sleep that begins there is before some of it.
    const put = events.some(({ type }) => type === "unpark") ? this.#parkedAfter : undefined;
    const asleep = new Set(this.#sleeps.keys());
    if (events.length > 0) this.#entries += 1;
    if (entry.consumed !== null) {
      if (entry.consumed < heard) this.#broken(`took in mail up to ${entry.consumed} after mail up to ${heard}`);
      this.consumed = entry.consumed;
    }
    const ids = new Set(entry.children.map(({ id }) => id));
    for (const event of events) {
      if (this.over) this.#broken(`${event.type} ${aboutOf(event)} after the end`);
      this.asked ||= isRequest(event);
      if (isDelivery(event)) this.deliveries.push({ event, entry: this.#entries });
      this.#note(event, { heard: put ?? heard, mail, now, childOf });
      if (event.type === "child" && !ids.has(event.run))
        this.#broken(`child ${event.run} is in the journal and was not made with its entry`);
    }
    if (this.over !== (entry.then.kind === "end") && events.length > 0) this.#broken("its end and its journal do not agree");
    this.#checkMail(mail);
    this.#mustBeAwake(heard, asleep, mail);
  }

  #note(event: Event, { heard, mail, now, childOf }: Pick<Taking, "mail" | "now" | "childOf"> & { readonly heard: number }): void {
    switch (event.type) {
      case "step":
      case "done":
      case "fail":
      case "doubt":
        return this.#noteStep(event);
      case "sleep":
        this.#sleeps.set(event.id, { until: event.until, heard });
        return;
      case "woke": {
        const sleep = this.#sleeps.get(event.id);
        this.#sleeps.delete(event.id);
        if (sleep === undefined) this.#broken(`${event.id} ended, and it did not last`);
        const woken = mail.some(({ kind, seq }) => kind === "wake" && seq > (sleep?.heard ?? 0) && seq <= this.consumed);
        if (sleep && now < sleep.until && !woken) this.#broken(`${event.id} ended ${sleep.until - now} ms before its time`);
        return;
      }
      case "hook":
        this.#hooks.set(event.id, { got: [], open: true });
        return;
      case "got":
        return this.#noteGot(event.id, event.payload, mail);
      case "hooked":
        if (event.conflict) this.#close(event.id);
        return;
      case "drop":
        return this.#close(event.id);
      case "child":
        this.#children.set(event.id, event.run);
        return;
      case "ended": {
        const child = this.#children.get(event.id);
        const run = child === undefined ? undefined : childOf(child);
        this.#children.delete(event.id);
        if (run?.status !== event.status || run.output !== event.output)
          this.#broken(`was told a wrong end of ${event.id}, or told it twice`);
        return;
      }
      case "park":
        this.#parked = true;
        this.#parkedAfter ??= event.mail;
        return;
      case "unpark":
        this.#parked = false;
        this.#parkedAfter = undefined;
        return;
      case "end":
        this.over = true;
    }
  }

  #noteStep(event: AttemptEvent): void {
    const { type, id, attempt } = event;
    const what = `${type} ${id} attempt ${attempt}`;
    const step = this.steps.get(id) ?? { attempts: 0, doubt: undefined, settled: false, resolved: new Set(), abandoned: false };
    this.steps.set(id, step);
    if (step.settled) this.#broken(`${what}: it was settled before`);
    if (type === "step" && attempt === 0) {
      if (step.attempts > 0) this.#broken(`${what} follows attempt ${step.attempts}`);
      return;
    }
    if (type === "step") {
      if (attempt !== step.attempts + 1) this.#broken(`${what} follows attempt ${step.attempts}`);
      step.attempts = attempt;
      step.doubt = undefined;
      return;
    }
    if (attempt !== step.attempts) this.#broken(`${what}: the last one was attempt ${step.attempts}`);
    if (isResolution(event)) step.resolved.add(attempt);
    step.doubt = type === "doubt" ? attempt : undefined;
    step.settled = isDelivery(event);
    step.abandoned = event.type === "fail" && event.how === "abandoned";
  }

  /** How many steps are in doubt at the end is what the store is told. */
  mustLeave(unsettled: number): void {
    const doubts = [...this.steps.values()].filter(({ doubt }) => doubt !== undefined).length;
    if (doubts !== unsettled) this.#broken(`${doubts} steps are in doubt after its end, and ${unsettled} were counted`);
  }

  /** After the end there are only verdicts, of steps in doubt or left behind; none after another one. */
  takeLate(events: readonly Event[], unsettled: number): void {
    for (const event of events) {
      const isVerdict = event.type === "done" || event.type === "doubt" || (event.type === "fail" && event.retryAt === null);
      const step = isVerdict ? this.steps.get(event.id) : undefined;
      if (!isVerdict || step === undefined) return this.#broken(`${event.type} ${aboutOf(event)} after the end`);
      const what = `${event.type} ${event.id} attempt ${event.attempt} after the end`;
      if (event.attempt !== step.attempts) this.#broken(`${what}: the last one was attempt ${step.attempts}`);
      if (step.doubt !== event.attempt && !step.abandoned) this.#broken(`${what}: its outcome was known`);
      if (isResolution(event)) step.resolved.add(event.attempt);
      step.doubt = event.type === "doubt" ? event.attempt : undefined;
      step.abandoned = false;
    }
    this.mustLeave(unsettled);
  }

  #noteGot(id: string, payload: string, mail: readonly Mail[]): void {
    const hook = this.#hooks.get(id);
    const sent = mail.filter((each) => each.kind === "hook" && each.about === id)[hook?.got.length ?? 0];
    if (hook === undefined || sent === undefined) return this.#broken(`${id} got a payload that nobody sent`);
    const before = hook.got.at(-1);
    if (before !== undefined && numberOf(payload) <= numberOf(before)) this.#broken(`${id} got ${payload} after ${before}`);
    hook.got.push(payload);
    if (sent.payload !== payload) this.#broken(`${id} got ${payload}, and ${sent.payload} was its turn`);
    if (sent.seq > this.consumed) this.#broken(`${id} got mail ${sent.seq}, and only mail up to ${this.consumed} was taken in with it`);
  }

  /** Whatever was taken in for a hook that is open was told to it. */
  #checkMail(mail: readonly Mail[]): void {
    if (this.#parked) return;
    for (const { kind, about, seq, payload } of mail) if (kind === "resolve" && seq <= this.consumed) this.#mustBeResolved(about, payload);
    if (this.over) return;
    for (const [id, { got, open }] of this.#hooks) {
      if (!open) continue;
      const taken = mail.filter(({ kind, about, seq }) => kind === "hook" && about === id && seq <= this.consumed).length;
      if (taken !== got.length) this.#broken(`${id} got ${got.length} of the ${taken} payloads that were taken in for it`);
    }
  }

  /** What a person has said was taken in: so it has had its effect, in this entry or in an earlier one. */
  #mustBeResolved(stepId: string | null, payload: string | null): void {
    const { attempt } = resolutionIn(payload);
    for (const [id, { doubt }] of this.steps)
      if (doubt === attempt && stepIdOf(this.#run, id) === stepId)
        this.#broken(`what a person said about ${id} attempt ${attempt} was taken in, and it is still in doubt`);
  }

  /** A wake-up of all sleeps that was taken in has ended every sleep that the journal had before. One that names sleeps, or none, has not. */
  #mustBeAwake(heard: number, asleep: ReadonlySet<string>, mail: readonly Mail[]): void {
    if (
      this.over ||
      this.#parked ||
      !mail.some(({ kind, seq, payload }) => kind === "wake" && payload === null && seq > heard && seq <= this.consumed)
    )
      return;
    for (const id of asleep) if (this.#sleeps.has(id)) this.#broken(`a wake-up was taken in, and ${id} lasts`);
  }

  #close(id: string): void {
    const hook = this.#hooks.get(id);
    if (hook) hook.open = false;
  }

  #broken(what: string): never {
    throw new PromiseBroken(`${this.#run}: ${what}`);
  }
}

function aboutOf(event: Event): string {
  return storedParts(event).about;
}

function isResolution(event: Event): boolean {
  return (event.type === "done" || event.type === "fail") && event.how === "resolved";
}

/** Customers number what they send. */
function numberOf(payload: string): number {
  return (decode(payload) as { readonly i: number }).i;
}
