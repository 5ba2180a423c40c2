import type { Entry } from "../../../core/runs/operation.js";
import type { Mail, RunRecord } from "../../../core/runs/run.js";
import { decode } from "../../../core/values/codec.js";
import { storedParts } from "../../../workflow/journal/codec.js";
import { type AttemptEvent, type Delivery, type Event, isDelivery, isRequest } from "../../../workflow/journal/event.js";
import { stepIdOf } from "../../../workflow/journal/identity.js";
import { resolutionIn } from "../../../workflow/journal/resolution.js";
import { PromiseBroken } from "../observer.js";

interface StepFacts {
  /** Number of started attempts. */
  attempts: number;
  /** The attempt with an unknown outcome. */
  doubt: number | undefined;
  settled: boolean;
  /** Attempts whose outcome was recorded as resolved: by an operator, or by a body that ended after its run. */
  readonly resolved: Set<number>;
  /** The run ended before the step, and its outcome does not have to be resolved. */
  abandoned: boolean;
}

interface EntryContext {
  readonly events: readonly Event[];
  readonly entry: Entry;
  /** All mail that was ever sent to the run. */
  readonly mail: readonly Mail[];
  readonly now: number;
  readonly childOf: (id: string) => RunRecord | undefined;
}

/** The state that a journal describes so far. Each new entry is checked against the earlier ones. */
export class JournalFacts {
  readonly #run: string;
  readonly steps = new Map<string, StepFacts>();
  /** The events that were delivered to the workflow code, in order, with the number of their entry. */
  readonly deliveries: { readonly event: Delivery; readonly entry: number }[] = [];
  readonly #sleeps = new Map<string, { readonly until: number; readonly consumedBefore: number }>();
  readonly #hooks = new Map<string, { readonly got: string[]; open: boolean }>();
  readonly #children = new Map<string, string>();
  readonly #cancelled = new Set<string>();
  #entries = 0;
  /** The number of the last mail that the run has consumed. */
  consumed = 0;
  /** Mail is set aside until the code matches the journal again. */
  #parked = false;
  /** Mail after this number was set aside. */
  #parkedAfter: number | undefined;
  /** The workflow code has made a request (a step, sleep, hook or child). */
  hasRequests = false;
  over = false;

  constructor(run: string) {
    this.#run = run;
  }

  add({ events, entry, mail, now, childOf }: EntryContext): void {
    const consumedBefore = this.consumed;
    // Mail that was set aside is consumed together with the "unpark" event: a sleep in the same entry is older than a part of that mail.
    const parkedAfter = events.some(({ type }) => type === "unpark") ? this.#parkedAfter : undefined;
    const asleep = new Set(this.#sleeps.keys());
    if (events.length > 0) this.#entries += 1;
    if (entry.consumed !== null) {
      if (entry.consumed < consumedBefore) this.#broken(`consumed mail up to ${entry.consumed} after mail up to ${consumedBefore}`);
      this.consumed = entry.consumed;
    }
    const ids = new Set(entry.children.map(({ id }) => id));
    for (const event of events) {
      if (this.over) this.#broken(`${event.type} ${aboutOf(event)} after the end`);
      this.hasRequests ||= isRequest(event);
      if (isDelivery(event) && !this.#isAfterCancel(event)) this.deliveries.push({ event, entry: this.#entries });
      this.#apply(event, { consumedBefore: parkedAfter ?? consumedBefore, mail, now, childOf });
      if (event.type === "child" && !ids.has(event.run))
        this.#broken(`child ${event.run} is in the journal, but it was not created with the entry`);
    }
    if (this.over !== (entry.then.kind === "end") && events.length > 0)
      this.#broken("the journal and the status of the run disagree about its end");
    this.#checkMail(mail);
    this.#mustBeAwake(consumedBefore, asleep, mail);
  }

  #apply(
    event: Event,
    { consumedBefore, mail, now, childOf }: Pick<EntryContext, "mail" | "now" | "childOf"> & { readonly consumedBefore: number },
  ): void {
    switch (event.type) {
      case "step":
      case "done":
      case "fail":
      case "doubt":
        return this.#applyStep(event);
      case "sleep":
        this.#sleeps.set(event.id, { until: event.until, consumedBefore });
        return;
      case "woke": {
        const sleep = this.#sleeps.get(event.id);
        this.#sleeps.delete(event.id);
        if (sleep === undefined) this.#broken(`${event.id} ended, but it was not in progress`);
        const woken = mail.some(({ kind, seq }) => kind === "wake" && seq > (sleep?.consumedBefore ?? 0) && seq <= this.consumed);
        if (sleep && now < sleep.until && !woken) this.#broken(`${event.id} ended ${sleep.until - now} ms early`);
        return;
      }
      case "cancelled":
        this.#sleeps.delete(event.id);
        this.#cancelled.add(event.id);
        return;
      case "hook":
        this.#hooks.set(event.id, { got: [], open: true });
        return;
      case "got":
        return this.#applyPayload(event.id, event.payload, mail);
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
          this.#broken(`the journal has a wrong end of ${event.id}, or a second one`);
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

  /** The code has got a CancelledError for the step, and gets no later verdict. */
  #isAfterCancel(event: Delivery): boolean {
    return (event.type === "done" || event.type === "fail") && this.#cancelled.has(event.id);
  }

  #applyStep(event: AttemptEvent): void {
    const { type, id, attempt } = event;
    const what = `${type} ${id} attempt ${attempt}`;
    const step = this.steps.get(id) ?? { attempts: 0, doubt: undefined, settled: false, resolved: new Set(), abandoned: false };
    this.steps.set(id, step);
    if (step.settled) this.#broken(`${what}: the step had already been settled`);
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
    if (attempt !== step.attempts) this.#broken(`${what}: the last attempt was ${step.attempts}`);
    if (isResolution(event)) step.resolved.add(attempt);
    step.doubt = type === "doubt" ? attempt : undefined;
    step.settled = isDelivery(event);
    step.abandoned = event.type === "fail" && event.how === "abandoned";
  }

  /** The `unsettled` count of an ended run is the number of its steps with an unknown outcome. */
  mustHaveUnsettled(unsettled: number): void {
    const doubts = [...this.steps.values()].filter(({ doubt }) => doubt !== undefined).length;
    if (doubts !== unsettled)
      this.#broken(`${doubts} steps have an unknown outcome after the end of the run, but unsettled is ${unsettled}`);
  }

  /** After the end of a run only outcomes may be written, and only of steps whose outcome is unknown or that were abandoned. */
  addLate(events: readonly Event[], unsettled: number): void {
    for (const event of events) {
      const isVerdict = event.type === "done" || event.type === "doubt" || (event.type === "fail" && event.retryAt === null);
      const step = isVerdict ? this.steps.get(event.id) : undefined;
      if (!isVerdict || step === undefined) return this.#broken(`${event.type} ${aboutOf(event)} after the end`);
      const what = `${event.type} ${event.id} attempt ${event.attempt} after the end`;
      if (event.attempt !== step.attempts) this.#broken(`${what}: the last attempt was ${step.attempts}`);
      if (step.doubt !== event.attempt && !step.abandoned) this.#broken(`${what}: its outcome was already known`);
      if (isResolution(event)) step.resolved.add(event.attempt);
      step.doubt = event.type === "doubt" ? event.attempt : undefined;
      step.abandoned = false;
    }
    this.mustHaveUnsettled(unsettled);
  }

  #applyPayload(id: string, payload: string, mail: readonly Mail[]): void {
    const hook = this.#hooks.get(id);
    const sent = mail.filter((each) => each.kind === "hook" && each.about === id)[hook?.got.length ?? 0];
    if (hook === undefined || sent === undefined) return this.#broken(`${id} received a payload that was never sent`);
    const before = hook.got.at(-1);
    if (before !== undefined && numberOf(payload) <= numberOf(before)) this.#broken(`${id} received ${payload} after ${before}`);
    hook.got.push(payload);
    if (sent.payload !== payload) this.#broken(`${id} received ${payload}, but the next payload is ${sent.payload}`);
    if (sent.seq > this.consumed) this.#broken(`${id} received mail ${sent.seq}, but the entry consumed only mail up to ${this.consumed}`);
  }

  /** Every consumed payload of an open hook was delivered to it, and every consumed resolution was applied. */
  #checkMail(mail: readonly Mail[]): void {
    if (this.#parked) return;
    for (const { kind, about, seq, payload } of mail) if (kind === "resolve" && seq <= this.consumed) this.#mustBeResolved(about, payload);
    if (this.over) return;
    for (const [id, { got, open }] of this.#hooks) {
      if (!open) continue;
      const consumed = mail.filter(({ kind, about, seq }) => kind === "hook" && about === id && seq <= this.consumed).length;
      if (consumed !== got.length) this.#broken(`${id} received ${got.length} of its ${consumed} consumed payloads`);
    }
  }

  /** The run has consumed this resolution of an operator, so this entry or an earlier one must have applied it. */
  #mustBeResolved(stepId: string | null, payload: string | null): void {
    const { attempt } = resolutionIn(payload);
    for (const [id, { doubt }] of this.steps)
      if (doubt === attempt && stepIdOf(this.#run, id) === stepId)
        this.#broken(`the resolution of ${id} attempt ${attempt} was consumed, but the outcome is still unknown`);
  }

  /** A consumed wake-up of all sleeps (`payload` is null) ends every sleep of earlier entries. A wake-up of named sleeps does not. */
  #mustBeAwake(consumedBefore: number, asleep: ReadonlySet<string>, mail: readonly Mail[]): void {
    if (
      this.over ||
      this.#parked ||
      !mail.some(({ kind, seq, payload }) => kind === "wake" && payload === null && seq > consumedBefore && seq <= this.consumed)
    )
      return;
    for (const id of asleep) if (this.#sleeps.has(id)) this.#broken(`a wake-up was consumed, but ${id} has not ended`);
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

/** Clients number their payloads. */
function numberOf(payload: string): number {
  return (decode(payload) as { readonly i: number }).i;
}
