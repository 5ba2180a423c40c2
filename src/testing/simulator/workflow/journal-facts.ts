import type { Entry } from "../../../core/runs/operation.js";
import type { Mail, RunRecord } from "../../../core/runs/run.js";
import { decode } from "../../../core/values/codec.js";
import { resolutionIn } from "../../../workflow/client/resolution.js";
import { type Event, isDelivery, isRequest } from "../../../workflow/journal/event.js";
import { stepIdOf } from "../../../workflow/journal/identity.js";
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
  readonly deliveries: { readonly event: Event; readonly entry: number }[] = [];
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
    const put = events.some(({ 0: type }) => type === "unpark") ? this.#parkedAfter : undefined;
    const asleep = new Set(this.#sleeps.keys());
    if (events.length > 0) this.#entries += 1;
    if (entry.consumed !== null) {
      if (entry.consumed < heard) this.#broken(`took in mail up to ${entry.consumed} after mail up to ${heard}`);
      this.consumed = entry.consumed;
    }
    const ids = new Set(entry.children.map(({ id }) => id));
    for (const event of events) {
      if (this.over) this.#broken(`${event[0]} ${event[1]} after the end`);
      this.asked ||= isRequest(event);
      if (isDelivery(event)) this.deliveries.push({ event, entry: this.#entries });
      this.#note(event, { heard: put ?? heard, mail, now, childOf });
      if (event[0] === "child" && !ids.has(event[3])) this.#broken(`child ${event[3]} is in the journal and was not made with its entry`);
    }
    if (this.over !== (entry.then.kind === "end") && events.length > 0) this.#broken("its end and its journal do not agree");
    this.#checkMail(mail);
    this.#mustBeAwake(heard, asleep, mail);
  }

  #note(event: Event, { heard, mail, now, childOf }: Pick<Taking, "mail" | "now" | "childOf"> & { readonly heard: number }): void {
    switch (event[0]) {
      case "step":
      case "done":
      case "fail":
      case "doubt":
        return this.#noteStep(event);
      case "sleep":
        this.#sleeps.set(event[1], { until: event[3], heard });
        return;
      case "woke": {
        const sleep = this.#sleeps.get(event[1]);
        this.#sleeps.delete(event[1]);
        if (sleep === undefined) this.#broken(`${event[1]} ended, and it did not last`);
        const woken = mail.some(({ kind, seq }) => kind === "wake" && seq > (sleep?.heard ?? 0) && seq <= this.consumed);
        if (sleep && now < sleep.until && !woken) this.#broken(`${event[1]} ended ${sleep.until - now} ms before its time`);
        return;
      }
      case "hook":
        this.#hooks.set(event[1], { got: [], open: true });
        return;
      case "got":
        return this.#noteGot(event, mail);
      case "hooked":
        if (event[3]) this.#close(event[1]);
        return;
      case "drop":
        return this.#close(event[1]);
      case "child":
        this.#children.set(event[1], event[3]);
        return;
      case "ended": {
        const child = this.#children.get(event[1]);
        const run = child === undefined ? undefined : childOf(child);
        this.#children.delete(event[1]);
        if (run?.status !== event[3] || run.output !== event[4]) this.#broken(`was told a wrong end of ${event[1]}, or told it twice`);
        return;
      }
      case "park":
      case "unpark":
        this.#parked = event[0] === "park";
        this.#parkedAfter = event[0] === "park" ? (this.#parkedAfter ?? event[3]) : undefined;
        return;
      case "end":
        this.over = true;
    }
  }

  #noteStep(event: Extract<Event, readonly [type: "step" | "done" | "fail" | "doubt", ...unknown[]]>): void {
    const [type, id, , attempt] = event;
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
    step.abandoned = type === "fail" && event[6] === "abandoned";
  }

  /** How many steps are in doubt at the end is what the store is told. */
  mustLeave(unsettled: number): void {
    const doubts = [...this.steps.values()].filter(({ doubt }) => doubt !== undefined).length;
    if (doubts !== unsettled) this.#broken(`${doubts} steps are in doubt after its end, and ${unsettled} were counted`);
  }

  /** After the end there are only verdicts, of steps in doubt or left behind; none after another one. */
  takeLate(events: readonly Event[], unsettled: number): void {
    for (const event of events) {
      const step = this.steps.get(event[1]);
      const isVerdict = event[0] === "done" || event[0] === "doubt" || (event[0] === "fail" && event[5] === null);
      if (!isVerdict || step === undefined) return this.#broken(`${event[0]} ${event[1]} after the end`);
      const what = `${event[0]} ${event[1]} attempt ${event[3]} after the end`;
      if (event[3] !== step.attempts) this.#broken(`${what}: the last one was attempt ${step.attempts}`);
      if (step.doubt !== event[3] && !step.abandoned) this.#broken(`${what}: its outcome was known`);
      if (isResolution(event)) step.resolved.add(event[3]);
      step.doubt = event[0] === "doubt" ? event[3] : undefined;
      step.abandoned = false;
    }
    this.mustLeave(unsettled);
  }

  #noteGot([, id, , payload]: Extract<Event, readonly [type: "got", ...unknown[]]>, mail: readonly Mail[]): void {
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

  /** A wake-up that was taken in has ended every sleep that the journal had before. */
  #mustBeAwake(heard: number, asleep: ReadonlySet<string>, mail: readonly Mail[]): void {
    if (this.over || this.#parked || !mail.some(({ kind, seq }) => kind === "wake" && seq > heard && seq <= this.consumed)) return;
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

function isResolution(event: Event): boolean {
  return (event[0] === "done" && event[5] === "resolved") || (event[0] === "fail" && event[6] === "resolved");
}

/** Customers number what they send. */
function numberOf(payload: string): number {
  return (decode(payload) as { readonly i: number }).i;
}
