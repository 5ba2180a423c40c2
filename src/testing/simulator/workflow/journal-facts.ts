import type { Entry } from "../../../core/runs/operation.js";
import type { Mail } from "../../../core/runs/run.js";
import { decode } from "../../../core/values/codec.js";
import { storedParts } from "../../../workflow/journal/codec.js";
import { type AttemptEvent, type Delivery, type Event, isDelivery, isRequest, type Retry } from "../../../workflow/journal/event.js";
import { resolutionIn } from "../../../workflow/journal/mail/resolution.js";
import { PromiseBroken } from "../observer.js";
import { afterRetry, type Noted } from "./after-retry.js";
import { StopFacts } from "./stop-facts.js";

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
  /** Number of the entry. */
  readonly seq: number;
  readonly events: readonly Event[];
  readonly entry: Entry;
  /** All mail that was ever sent to the run. */
  readonly mail: readonly Mail[];
  readonly now: number;
  /** Whether a run has ended in this way, as far as its parent or another run that awaits it can know. */
  readonly hasEndedAs: (child: string, end: Pick<ChildEnd, "status" | "output">) => boolean;
}

interface HookFacts {
  readonly token: string;
  readonly got: string[];
  open: boolean;
  /** Mail up to this number was for an earlier hook with this id, which a retry has dropped. */
  readonly after: number;
}

interface ChildEnd {
  readonly run: string;
  readonly status: string;
  readonly output: string | null;
}

type Deliveries = { readonly event: Delivery; readonly entry: number }[];

interface Reopening {
  readonly seq: number;
  readonly events: readonly Event[];
  readonly mail: readonly Mail[];
  readonly now: number;
  /** What the operator has listed as to be forgotten. */
  readonly force: readonly string[];
}

interface JournalFactsOptions {
  readonly stepIdOf: (call: string) => string;
  /** Another run has had the same hooks, so a late payload for that one may arrive. */
  readonly sharesTokens: boolean;
  readonly deadlineAt: () => number | null | undefined;
}

/** The state that a journal describes so far. Each new entry is checked against the earlier ones. */
export class JournalFacts {
  readonly #run: string;
  readonly #stepIdOf: (call: string) => string;
  readonly #sharesTokens: boolean;
  /** All events that have a meaning: a retry takes it from some. */
  #noted: Noted[] = [];
  steps = new Map<string, StepFacts>();
  /** Steps and children that had begun when a retry dropped them: their ids are not used again. */
  readonly retired = new Map<string, StepFacts | undefined>();
  /** The events that were delivered to the workflow code, in order, with the number of their entry. */
  deliveries: Deliveries = [];
  /** The deliveries before each retry, and the number of the last entry before it. */
  readonly #former: { readonly last: number; readonly deliveries: Deliveries }[] = [];
  /** Attempts whose outcome was recorded as resolved, also by a resolution that a retry has dropped. */
  readonly resolved = new Set<string>();
  /** Number of retries. */
  retries = 0;
  #sleeps = new Map<string, { readonly until: number; readonly consumedBefore: number }>();
  #hooks = new Map<string, HookFacts>();
  #children = new Map<string, string>();
  /** Ends of children that the run has taken. */
  readonly childEnds = new Map<string, ChildEnd>();
  /** Events are read again, or were copied from another run: they are not checked. */
  #isCopying = false;
  /** The number of the last mail that the run has consumed. */
  consumed = 0;
  /** The same, at the last retry. */
  #consumedBeforeRetry = 0;
  /** Mail is set aside until the code matches the journal again. */
  #parked = false;
  /** Mail after this number was set aside. */
  #parkedAfter: number | undefined;
  /** The workflow code has made a request (a step, sleep, hook or child). */
  hasRequests = false;
  over = false;

  readonly stops: StopFacts;

  constructor(run: string, { stepIdOf, sharesTokens, deadlineAt }: JournalFactsOptions) {
    this.stops = new StopFacts({ deadlineAt, broken: (what) => this.#broken(what) });
    this.#run = run;
    this.#stepIdOf = stepIdOf;
    this.#sharesTokens = sharesTokens;
  }

  /** The deliveries as they were when the entry `seq` was the last one. */
  deliveriesAt(seq: number): Deliveries {
    return this.#former.find(({ last }) => seq <= last)?.deliveries ?? this.deliveries;
  }

  /** The first entry of a fork: a copy. */
  copy(events: readonly Event[]): void {
    this.#isCopying = true;
    const copied = { mail: [], now: 0, hasEndedAs: () => true };
    for (const event of events)
      if (event.type === "retry") this.#applyRetry(event);
      else this.#note({ event, entry: 1, consumedBefore: 0 }, copied);
    this.#isCopying = false;
  }

  /** An operator has retried the run. The first event is the retry; with a result for the failed step, that follows. */
  reopen({ seq, events, mail, now, force }: Reopening): void {
    const [retry, ...more] = events;
    if (retry?.type !== "retry") return this.#broken(`goes on without a "retry" event`);
    if (!this.over) this.#broken("was retried, but it had not ended");
    this.#former.push({ last: seq - 1, deliveries: this.deliveries });
    const hooks = [...this.#hooks].filter(([id, { after }]) =>
      mail.some(({ kind, about, seq: no }) => kind === "hook" && about === id && no > after),
    );
    const dropped = this.#applyRetry(retry);
    for (const [id] of hooks) if (dropped.has(id)) this.retired.set(id, undefined);
    const begun = [...this.retired.keys()].filter((id) => dropped.has(id));
    const unforced = begun.filter((id) => !force.includes(id));
    if (unforced.length > 0) this.#broken(`the retry drops ${unforced}, which the operator has not listed`);
    if (begun.length !== retry.renewed.length)
      this.#broken(`the retry drops ${begun} although they have begun, but renews ${retry.renewed}`);
    for (const event of more) this.#note({ event, entry: seq, consumedBefore: this.consumed }, { mail, now, hasEndedAs: () => true });
  }

  #applyRetry(retry: Retry): ReadonlySet<string> {
    const { kept, dropped } = afterRetry(this.#noted, retry);
    const begun = [...dropped].filter(
      (id) => (this.steps.get(id)?.attempts ?? 0) > 0 || this.#noted.some(({ event }) => event.type === "child" && event.id === id),
    );
    for (const id of begun) this.retired.set(id, this.steps.get(id));
    this.retries += 1;
    this.#consumedBeforeRetry = this.consumed;
    Object.assign(this, { steps: new Map(), deliveries: [], over: false, hasRequests: false });
    this.#sleeps = new Map();
    this.#children = new Map();
    this.childEnds.clear();
    // A hook that is created again gets payloads that were not consumed before.
    this.#hooks = new Map(
      [...this.#hooks].map(([id, hook]) => [id, { ...hook, got: [], open: false, after: dropped.has(id) ? this.consumed : hook.after }]),
    );
    const wasCopying = this.#isCopying;
    this.#isCopying = true;
    this.#noted = [];
    this.stops.reset(retry.mail ?? 0);
    for (const each of kept) this.#note(each, { mail: [], now: 0, hasEndedAs: () => true });
    this.#isCopying = wasCopying;
    return dropped;
  }

  /** Tokens of hooks that the code can get payloads from, as far as the journal knows. */
  get openTokens(): string[] {
    return [...this.#hooks.values()].flatMap(({ open, token }) => (open ? [token] : []));
  }

  #note(noted: Noted, context: Pick<EntryContext, "mail" | "now" | "hasEndedAs"> & { readonly resumes?: boolean }): void {
    const { event, entry, consumedBefore } = noted;
    this.#noted.push(noted);
    this.hasRequests ||= isRequest(event);
    if (isDelivery(event)) this.deliveries.push({ event, entry });
    this.stops.note(event, context);
    this.#apply(event, { consumedBefore, ...context });
  }

  add({ seq, events, entry, mail, now, hasEndedAs }: EntryContext): void {
    const consumedBefore = this.consumed;
    // Mail that was set aside is consumed together with the "unpark" event: a sleep in the same entry is older than a part of that mail.
    const parkedAfter = events.some(({ type }) => type === "unpark") ? this.#parkedAfter : undefined;
    const asleep = new Set(this.#sleeps.keys());
    if (entry.consumed !== null) {
      if (entry.consumed < consumedBefore) this.#broken(`consumed mail up to ${entry.consumed} after mail up to ${consumedBefore}`);
      this.consumed = entry.consumed;
    }
    const ids = new Set(entry.children.map(({ id }) => id));
    const context = { mail, now, hasEndedAs, resumes: events.some(({ type }) => type === "resume") };
    for (const event of events) {
      if (this.over) this.#broken(`${event.type} ${aboutOf(event)} after the end`);
      if ("id" in event && this.retired.has(event.id)) this.#broken(`${event.type} ${event.id}: a retry has dropped it after it had begun`);
      this.#note({ event, entry: seq, consumedBefore: parkedAfter ?? consumedBefore }, context);
      if (event.type === "child" && !ids.has(event.run))
        this.#broken(`child ${event.run} is in the journal, but it was not created with the entry`);
    }
    if (this.over !== (entry.then.kind === "end") && events.length > 0)
      this.#broken("the journal and the status of the run disagree about its end");
    this.#checkMail(mail);
    this.#mustBeAwake(consumedBefore, asleep, { mail, now });
  }

  #apply(
    event: Event,
    { consumedBefore, mail, now, hasEndedAs }: Pick<EntryContext, "mail" | "now" | "hasEndedAs"> & { readonly consumedBefore: number },
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
        const woken = mail.some(
          (each) => endsSleep(each, event.id) && each.seq > (sleep?.consumedBefore ?? 0) && each.seq <= this.consumed,
        );
        if (sleep && now < sleep.until && !woken) this.#broken(`${event.id} ended ${sleep.until - now} ms early`);
        return;
      }
      case "hook":
        this.#hooks.set(event.id, { after: 0, ...this.#hooks.get(event.id), token: event.token, got: [], open: true });
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
        this.#children.delete(event.id);
        if (child !== undefined) this.childEnds.set(event.id, { run: child, status: event.status, output: event.output });
        if (child === undefined || !hasEndedAs(child, event)) this.#broken(`the journal has a wrong end of ${event.id}, or a second one`);
        return;
      }
      case "cancelled":
        this.#sleeps.delete(event.id);
        return;
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
    if (isResolution(event)) this.#noteResolved(step, id, attempt);
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
      if (isResolution(event)) this.#noteResolved(step, event.id, event.attempt);
      this.#noted.push({ event, entry: 0, consumedBefore: this.consumed });
      step.doubt = event.type === "doubt" ? event.attempt : undefined;
      step.abandoned = false;
    }
    this.mustHaveUnsettled(unsettled);
  }

  #noteResolved(step: StepFacts, id: string, attempt: number): void {
    step.resolved.add(attempt);
    this.resolved.add(`${id} attempt ${attempt}`);
  }

  #applyPayload(id: string, payload: string, mail: readonly Mail[]): void {
    const hook = this.#hooks.get(id);
    const after = hook?.after ?? 0;
    const sent = mail.filter((each) => each.kind === "hook" && each.about === id && each.seq > after)[hook?.got.length ?? 0];
    if (hook !== undefined && this.#isCopying) return void hook.got.push(payload);
    if (hook === undefined || sent === undefined) return this.#broken(`${id} received a payload that was never sent`);
    const before = hook.got.at(-1);
    if (before !== undefined && !this.#sharesTokens && numberOf(payload) <= numberOf(before))
      this.#broken(`${id} received ${payload} after ${before}`);
    hook.got.push(payload);
    if (sent.payload !== payload) this.#broken(`${id} received ${payload}, but the next payload is ${sent.payload}`);
    if (sent.seq > this.consumed) this.#broken(`${id} received mail ${sent.seq}, but the entry consumed only mail up to ${this.consumed}`);
  }

  /** Every consumed payload of an open hook was delivered to it, and every consumed resolution was applied. */
  #checkMail(mail: readonly Mail[]): void {
    if (this.#parked) return;
    for (const { kind, about, seq, payload } of mail)
      if (kind === "resolve" && seq > this.#consumedBeforeRetry && seq <= this.consumed) this.#mustBeResolved(about, payload);
    if (this.over) return;
    this.stops.mustBeStopped(mail, this.consumed);
    for (const [id, { got, open, after }] of this.#hooks) {
      if (!open) continue;
      const consumed = mail.filter(({ kind, about, seq }) => kind === "hook" && about === id && seq > after && seq <= this.consumed).length;
      if (consumed !== got.length) this.#broken(`${id} received ${got.length} of its ${consumed} consumed payloads`);
    }
  }

  /** The run has consumed this resolution of an operator, so this entry or an earlier one must have applied it. */
  #mustBeResolved(stepId: string | null, payload: string | null): void {
    const { attempt, retries = 0 } = resolutionIn(payload);
    // A retry has made the outcome unknown again: the resolution was for the time before.
    if (retries !== this.retries) return;
    for (const [id, { doubt }] of this.steps)
      if (doubt === attempt && this.#stepIdOf(id) === stepId)
        this.#broken(`the resolution of ${id} attempt ${attempt} was consumed, but the outcome is still unknown`);
  }

  /** A consumed wake-up ends the sleeps of earlier entries that it names, except those whose time has come: a pause may begin before the code gets their end. */
  #mustBeAwake(consumedBefore: number, asleep: ReadonlySet<string>, { mail, now }: Pick<EntryContext, "mail" | "now">): void {
    if (this.over || this.#parked) return;
    const read = mail.filter(({ seq }) => seq > consumedBefore && seq <= this.consumed).filter((each) => !this.stops.isBeforeRetry(each));
    for (const id of asleep)
      if ((this.#sleeps.get(id)?.until ?? 0) > now && read.some((each) => endsSleep(each, id)))
        this.#broken(`a wake-up was consumed, but ${id} has not ended`);
  }

  #close(id: string): void {
    const hook = this.#hooks.get(id);
    if (hook) hook.open = false;
  }

  #broken(what: string): void {
    if (this.#isCopying) return;
    throw new PromiseBroken(`${this.#run}: ${what}`);
  }
}

/** Without a payload it is for all sleeps. */
function endsSleep({ kind, payload }: Mail, sleep: string): boolean {
  return kind === "wake" && (payload === null || (JSON.parse(payload) as string[]).includes(sleep));
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
