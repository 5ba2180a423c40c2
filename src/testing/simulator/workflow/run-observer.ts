import type {
  Act,
  ActionChange,
  Append,
  AppendLate,
  Claimed,
  ClaimQuery,
  Entry,
  RunAnswer,
  RunBackend,
  RunOperation,
  StartRun,
  Trial,
} from "../../../core/runs/operation.js";
import { isSuspect, type Mail } from "../../../core/runs/run.js";
import type { MemoryRuns } from "../../../stores/memory/runs/table.js";
import { decodeEvents } from "../../../workflow/journal/codec.js";
import { type Event, isRequest } from "../../../workflow/journal/event.js";
import { PromiseBroken } from "../observer.js";
import { Witness } from "../witness.js";
import { JournalFacts } from "./journal-facts.js";
import { type KnownRun, stepIdIn } from "./known-run.js";
import { describeAnswer, describeOperation } from "./trace.js";

const untried: Trial = { deaths: 0, crashes: 0, alone: false };

export interface RunObserverOptions {
  readonly now: () => number;
  readonly memory: MemoryRuns;
  readonly nameOf: (owner: string | null) => string;
  /** What an operator has listed as to be forgotten, by the id of the action. */
  readonly forceOf: (action: string) => readonly string[];
  readonly mayDiverge: (owner: string, run: string) => boolean;
}

/**
 * Watches every call at the store and checks at once: a run has one owner at a time and is claimed again only after the lease has expired,
 * journals have no gaps and no entries of overtaken owners, an id has one run, and mail is delivered once and in order.
 */
export class RunObserver extends Witness {
  readonly #options: RunObserverOptions;
  readonly #runs = new Map<string, KnownRun>();
  /** Runs that operators have deleted. */
  readonly removed: KnownRun[] = [];

  constructor(options: RunObserverOptions) {
    super(options.now);
    this.#options = options;
  }

  run(id: string): KnownRun | undefined {
    return this.#runs.get(id);
  }

  /** The worker that committed the first request of a run's code. */
  startedBy(id: string): string | undefined {
    return this.#startedBy(this.#runs.get(id));
  }

  #startedBy(run: KnownRun | undefined): string | undefined {
    if (run?.origin?.run.journal.hasRequests && run.origin.copied.size > 0) return this.#startedBy(run.origin.run);
    const first = run?.entries.find(({ events }) => decodeEvents(events).some(isRequest));
    return first && run?.owners.get(first.epoch)?.owner;
  }

  /** How many runs with this id were deleted. */
  incarnation(id: string): number {
    return this.removed.filter((run) => run.id === id).length;
  }

  /** How runs with this id have ended, each time. */
  endsOf(id: string): KnownRun["ends"] {
    return [...this.removed, ...this.#runs.values()].flatMap((run) => (run.id === id ? run.ends : []));
  }

  runs(): KnownRun[] {
    return [...this.#runs.values()];
  }

  observe(runs: RunBackend): RunBackend {
    const { nameOf } = this.#options;
    return {
      ...runs,
      flush: async (operations) => {
        const answers = await runs.flush(operations);
        operations.forEach((operation, i) => {
          const answer = answers[i];
          if (answer === undefined || answer === "again") return;
          this.operations += 1;
          this.note(() => `${describeOperation(operation)} → ${describeAnswer(answer)}`);
          this.guard(() => this.#written(operation, answer));
        });
        return answers;
      },
      claim: async (query) => {
        const claims = await runs.claim(query);
        if (claims.claimed.length > 0) {
          this.operations += 1;
          const what = claims.claimed.map(({ run, lapsed }) => `${run.id} e${run.epoch}${lapsed ? " lapsed" : ""}`);
          this.note(() => `${nameOf(query.owner)} claims ${what.join(", ")}`);
        }
        this.guard(() => this.#suspects(claims.claimed, query));
        for (const claimed of claims.claimed) this.guard(() => this.#claimed(claimed, query.owner, query.leaseMs));
        return claims;
      },
      renew: async (query) => {
        const renewed = await runs.renew(query);
        if (renewed.length > 0) {
          this.operations += 1;
          this.note(() => `${nameOf(query.owner)} renews ${renewed.map(({ id, epoch }) => `${id} e${epoch}`).join(", ")}`);
        }
        for (const { id, epoch } of renewed) this.guard(() => this.#renewed(id, epoch, query.owner, query.leaseMs));
        return renewed;
      },
    };
  }

  #written(operation: RunOperation, answer: RunAnswer): void {
    if (operation.verb === "start" && answer.kind === "created") this.#created(operation);
    if (operation.verb === "start" && answer.kind === "exists" && !this.#runs.has(operation.id))
      throw new PromiseBroken(`${operation.id}: start answered "exists", but the run was never created`);
    if (operation.verb === "append" && answer.kind === "appended") this.#appended(operation);
    if (operation.verb === "appendLate" && answer.kind === "appended") this.#appendedLate(operation);
    if (operation.verb === "act" && answer.kind === "acted" && !answer.repeated) this.#acted(operation);
    if (operation.verb === "send" && answer.kind === "sent") this.#sent(this.#known(answer.run), operation.key, answer.duplicate);
  }

  #sent(run: KnownRun, key: string, duplicate: boolean): void {
    if (!duplicate && run.mailKeys.has(key)) throw new PromiseBroken(`${run.id}: mail "${key}" was accepted twice`);
    run.mailKeys.add(key);
    if (!duplicate) wake(run);
  }

  #acted({ id, log, change }: Act): void {
    switch (change.kind) {
      case "start":
        return this.#forked(change.start, this.#runs.get(log.subject) ?? this.#removedRun(log.subject));
      case "send":
        return this.#sent(this.#known(id), change.mail.key, false);
      case "remove":
        return this.#removed(this.#known(id));
      case "reopen":
        return this.#reopened(this.#known(id), change, this.#options.forceOf(log.id));
    }
  }

  #forked(start: StartRun, original: KnownRun): void {
    const events = decodeEvents(start.first?.entry.events ?? "[]");
    const fork = events.at(-1);
    if (events.length === 0) return this.#created(start);
    if (fork?.type !== "fork") throw new PromiseBroken(`${start.id}: the first entry of a fork does not end with "fork"`);
    const copied = new Set(events.flatMap((event) => (isRequest(event) ? [event.id] : [])));
    let executedBy: KnownRun | undefined = original;
    while (executedBy !== undefined && executedBy.id !== fork.run) executedBy = executedBy.origin?.run;
    if (executedBy === undefined)
      throw new PromiseBroken(`${start.id}: is called a fork of ${fork.run}, which is no ancestor of ${original.id}`);
    this.#created(start, { run: executedBy, copied, sameKeys: fork.sameKeys });
  }

  /** A fork may be created just after its original was deleted. */
  #removedRun(id: string): KnownRun {
    const run = this.removed.findLast((removed) => removed.id === id);
    if (run === undefined) throw new PromiseBroken(`${id}: the run was never created`);
    return run;
  }

  #removed(run: KnownRun): void {
    if (!run.ended) throw new PromiseBroken(`${run.id}: deleted before its end`);
    run.journal.mustHaveUnsettled(0);
    this.#runs.delete(run.id);
    this.removed.push(run);
  }

  #reopened(run: KnownRun, { seq, events, hooks }: Extract<ActionChange, { kind: "reopen" }>, force: readonly string[]): void {
    const { id, entries, journal } = run;
    const now = this.#options.now();
    if (seq !== entries.length + 1) throw new PromiseBroken(`${id}: the retry is entry ${seq} and follows entry ${entries.length}`);
    if (run.ends.at(-1)?.status !== "failed") throw new PromiseBroken(`${id}: retried, but it has not failed`);
    Object.assign(run, { epoch: run.epoch + 1, ended: false, wakeAt: now, woken: false, lapsed: false, trial: untried, avoid: undefined });
    entries.push({ seq, epoch: run.epoch, at: now, events, by: "operator" });
    journal.reopen({ seq, events: decodeEvents(events), mail: this.#mailOf(id), now, force });
    const given = hooks.map(({ add }) => add);
    const missing = journal.openTokens.filter((token) => !given.includes(token));
    if (missing.length > 0) throw new PromiseBroken(`${id}: the retry does not register the hooks ${missing} again`);
    // The failure was not read by the parent, and the next end is reported again.
    const parent = run.parent === null ? undefined : this.#runs.get(run.parent);
    if (parent && this.#mailOf(parent.id).some(({ kind, about }) => kind === "child" && about === id))
      throw new PromiseBroken(`${id}: retried, but its parent still has the mail with its failure`);
  }

  #mailOf(id: string): readonly Mail[] {
    return this.#options.memory.mailboxes.get(id)?.mail ?? [];
  }

  /** The only end of an own child, or one of the ends of another run: those are polled. */
  #hasEndedAs(parent: KnownRun, child: string, { status, output }: { readonly status: string; readonly output: string | null }): boolean {
    const run = this.#options.memory.runs.get(child);
    if (run?.parent === parent.id && parent.incarnation === 0 && this.incarnation(child) === 0)
      return run.status === status && run.output === output;
    const isRemoved = this.incarnation(child) > 0;
    return (isRemoved && status === "absent") || this.endsOf(child).some((end) => end.status === status && end.output === output);
  }

  #created(operation: StartRun, origin?: KnownRun["origin"]): void {
    const { id, creator, parent, first } = operation;
    const now = this.#options.now();
    const known = this.#runs.get(id);
    if (known) {
      if (known.creator !== creator) throw new PromiseBroken(`${id}: two callers of start both got "created"`);
      return;
    }
    const run: KnownRun = {
      id,
      creator,
      parent,
      incarnation: this.incarnation(id),
      origin,
      entries: [],
      ends: [],
      journal: new JournalFacts(id, {
        stepIdOf: (call) => stepIdIn({ id, origin }, call),
        sharesTokens: origin !== undefined || this.incarnation(id) > 0,
        deadlineAt: () => this.#options.memory.runs.get(id)?.deadlineAt,
      }),
      mailKeys: new Set(),
      owners: new Map(first ? [[1, { owner: first.owner, entries: 0 }]] : []),
      owner: first?.owner ?? null,
      epoch: first ? 1 : 0,
      lapsed: false,
      leaseUntil: first ? now + first.leaseMs : 0,
      wakeAt: now,
      woken: false,
      ended: false,
      trial: untried,
      avoid: undefined,
    };
    this.#runs.set(id, run);
    if (origin !== undefined && first) this.#copied(run, first.entry);
    else if (first) this.#write(run, { seq: 1, epoch: 1 }, first.entry);
  }

  #copied(run: KnownRun, entry: Entry): void {
    const events = entry.events ?? "[]";
    run.entries.push({ seq: 1, epoch: 1, at: this.#options.now(), events, by: "operator" });
    run.journal.copy(decodeEvents(events));
    this.#then(run, 1, entry, this.#options.now());
  }

  #appended({ id, epoch, seq, entry }: Append): void {
    const run = this.#known(id);
    const existing = run.entries[seq - 1];
    if (entry.events !== null && existing !== undefined) {
      if (existing.epoch !== epoch)
        throw new PromiseBroken(`${id}: entry ${seq} of epoch ${epoch} was accepted, but epoch ${existing.epoch} already has that entry`);
      // A fence takes the position that an uncertain transaction would use; its owner then reads which of the two entries is there.
      if (existing.events !== entry.events && !entry.events.includes('["fence"'))
        throw new PromiseBroken(`${id}: entry ${seq} was accepted as a repetition, but the existing entry is different`);
      return;
    }
    if (run.ended) {
      // A repetition after a lost reply.
      if (entry.events === null && entry.then.kind === "end") return;
      throw new PromiseBroken(`${id}: entry ${seq} was written after the end`);
    }
    if (entry.events === null && epoch !== run.epoch)
      throw new PromiseBroken(`${id}: an overtaken owner (epoch ${epoch}) released the run`);
    this.#write(run, { seq, epoch }, entry);
  }

  /** The only operation that may write after the end of a run. */
  #appendedLate({ id, epoch, seq, events, unsettled }: AppendLate): void {
    const run = this.#known(id);
    const existing = run.entries[seq - 1];
    if (existing?.events === events) return;
    if (!run.ended) throw new PromiseBroken(`${id}: late entry ${seq} was written before the end of the run`);
    if (existing !== undefined || seq !== run.entries.length + 1)
      throw new PromiseBroken(`${id}: late entry ${seq} follows entry ${run.entries.length}`);
    if (epoch !== run.epoch) throw new PromiseBroken(`${id}: epoch ${epoch} wrote a late entry, but the run ended in epoch ${run.epoch}`);
    run.entries.push({ seq, epoch, at: this.#options.now(), events, by: "late" });
    run.journal.addLate(decodeEvents(events), unsettled);
  }

  #write(run: KnownRun, at: { readonly seq: number; readonly epoch: number }, entry: Entry): void {
    const now = this.#options.now();
    const last = run.entries.at(-1);
    if (entry.events !== null) {
      if (at.seq !== run.entries.length + 1) throw new PromiseBroken(`${run.id}: entry ${at.seq} follows entry ${run.entries.length}`);
      if (last && at.epoch < last.epoch)
        throw new PromiseBroken(`${run.id}: epoch ${at.epoch} wrote after epoch ${last.epoch} had written`);
      const fenced = at.epoch !== run.epoch || !run.lapsed || (last?.epoch ?? 0) === at.epoch || entry.events.includes('["claim"');
      if (!fenced)
        throw new PromiseBroken(`${run.id}: epoch ${at.epoch} took over from an expired owner, but its first entry has no "claim" event`);
      run.entries.push({ ...at, at: now, events: entry.events, by: "owner" });
    }
    for (const { to, kind } of entry.outgoing ?? []) this.#cancelled(run.id, to.run, kind);
    for (const child of entry.children) if (!this.#runs.has(child.id)) this.#created(child);
    const mail = this.#mailOf(run.id);
    const events: readonly Event[] = entry.events === null ? [] : decodeEvents(entry.events);
    run.journal.add({ seq: at.seq, events, entry, mail, now, hasEndedAs: (child, end) => this.#hasEndedAs(run, child, end) });
    run.trial = entry.trial ?? run.trial;
    this.#then(run, at.epoch, entry, now);
  }

  /** A run cancels only runs that it has started itself. The mail is dropped if that run was deleted. */
  #cancelled(parent: string, child: string, kind: string): void {
    const known = this.#runs.get(child);
    // The store rejected the entry that would have created the child, or the child was deleted: the mail is dropped.
    if (known === undefined) return;
    if (kind !== "cancel" || known.parent !== parent)
      throw new PromiseBroken(`${parent}: sent ${kind} to ${child}, which is not its child`);
    if (!known.ended) wake(known);
  }

  #then(run: KnownRun, epoch: number, { then }: Entry, now: number): void {
    if (then.kind === "hold") return;
    if (then.kind === "release") {
      const mayDiverge = this.#options.mayDiverge(run.owners.get(epoch)?.owner ?? "", run.id);
      if (then.status === "diverged" && !mayDiverge) throw new PromiseBroken(`${run.id}: diverged under matching code: ${then.trouble}`);
      const inDoubt = [...run.journal.steps.values()].some(({ doubt }) => doubt !== undefined);
      if (then.status === "unknown" && !inDoubt) throw new PromiseBroken(`${run.id}: status unknown, but no step has an unknown outcome`);
      run.wakeAt = then.wakeAt;
      run.avoid = then.avoid;
      run.woken = (this.#options.memory.runs.get(run.id)?.mail ?? 0) > (then.seen ?? run.journal.consumed);
    } else {
      run.ended = true;
      run.ends.push({ status: then.status, output: then.output });
      run.journal.mustHaveUnsettled(then.unsettled ?? 0);
      if (this.#options.memory.runs.get(run.id)?.owner !== null) throw new PromiseBroken(`${run.id}: has ended, but still has an owner`);
      const parent = run.parent === null ? undefined : this.#runs.get(run.parent);
      if (parent) wake(parent);
    }
    run.owner = null;
    run.leaseUntil = now;
  }

  #suspects(claimed: readonly Claimed[], { suspects = true }: ClaimQuery): void {
    const found = claimed.filter(({ run }) => isSuspect(this.#known(run.id).trial)).map(({ run }) => run.id);
    if (found.length > (suspects ? 1 : 0))
      throw new PromiseBroken(`one claim returned the suspects ${found.join(", ")}, the limit is ${suspects ? 1 : 0}`);
  }

  #claimed({ run: claimed, lapsed, journal }: Claimed, owner: string, leaseMs: number): void {
    const { id, epoch } = claimed;
    const now = this.#options.now();
    const run = this.#known(id);
    if (run.avoid?.workers.includes(owner) && now < run.avoid.until)
      throw new PromiseBroken(`${id}: claimed by a worker that must avoid it`);
    const died = run.owner === null ? 0 : 1;
    const trial = { deaths: run.trial.deaths + died, crashes: run.trial.crashes + (run.trial.alone ? died : 0), alone: false };
    if (claimed.deaths !== trial.deaths || claimed.crashes !== trial.crashes || claimed.alone)
      throw new PromiseBroken(
        `${id}: claimed with ${claimed.deaths} deaths and ${claimed.crashes} crashes, expected ${JSON.stringify(trial)}`,
      );
    if (run.ended) throw new PromiseBroken(`${id}: claimed after its end`);
    if (run.owner !== null && now < run.leaseUntil) throw new PromiseBroken(`${id}: claimed while its owner held a live lease`);
    if (run.owner === null && !run.woken && (run.wakeAt === null || now < run.wakeAt))
      throw new PromiseBroken(`${id}: claimed before its wake-up time, and no mail had arrived`);
    if (epoch !== run.epoch + 1) throw new PromiseBroken(`${id}: epoch ${epoch} followed epoch ${run.epoch}`);
    if (lapsed !== (run.owner !== null))
      throw new PromiseBroken(
        `${id}: the claim answered lapsed: ${lapsed}, but the last owner ${run.owner === null ? "had released the run" : "had not released the run"}`,
      );
    if (journal.length !== run.entries.length)
      throw new PromiseBroken(`${id}: claimed with ${journal.length} of ${run.entries.length} entries`);
    run.owners.set(epoch, { owner, entries: journal.length });
    Object.assign(run, { owner, epoch, lapsed, leaseUntil: now + leaseMs, woken: false, trial });
  }

  #renewed(id: string, epoch: number, owner: string, leaseMs: number): void {
    const run = this.#known(id);
    if (run.owner !== owner || run.epoch !== epoch)
      throw new PromiseBroken(`${id}: the lease was renewed for a worker that does not own the run`);
    run.leaseUntil = this.#options.now() + leaseMs;
  }

  #known(id: string): KnownRun {
    const run = this.#runs.get(id);
    if (run === undefined) throw new PromiseBroken(`${id}: the run was never created`);
    return run;
  }
}

/** Mail makes a run without an owner due for every worker, also for those that were to avoid it. */
function wake(run: KnownRun): void {
  run.woken = true;
  if (run.owner === null) run.avoid = undefined;
}
