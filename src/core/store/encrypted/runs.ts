import type { Chunk, ChunkQuery, ChunkRecord } from "../../runs/chunk.js";
import type { LogEntry, NewLogEntry } from "../../runs/log.js";
import type {
  Act,
  Append,
  AppendLate,
  Claimed,
  Entry,
  HookChange,
  OutgoingMail,
  RunAnswer,
  RunBackend,
  RunOperation,
  StartRun,
  Then,
} from "../../runs/operation.js";
import type { HookRecord, JournalEntry, Mail, RunRecord } from "../../runs/run.js";
import type { AssociatedData, Cipher } from "../../values/cipher.js";
import { lazily, withMembers } from "../../values/sealed.js";

/**
 * A RunBackend that encrypts input, output and trouble of runs, journal events, mail payloads, hook metadata and stream chunks. Ids,
 * workflow names, tokens, states, times, and what runs are found by (scopes, attributes, names and codes of errors) are not encrypted.
 *
 * When a run ends, the store itself builds the mail to its parent from the status and the encrypted output. So the payload of such mail is
 * decrypted as the output of the child.
 */
export function encryptedRuns(runs: RunBackend, cipher: Cipher): RunBackend {
  const opens = new Opens(cipher);
  const memo = new WeakMap<RunOperation, RunOperation>();
  /** Encrypts an operation once: after a lost reply it must be sent again unchanged. */
  const sealed = <Op extends RunOperation>(operation: Op): Op => {
    const known = memo.get(operation) ?? sealedOperation(operation, cipher);
    memo.set(operation, known);
    return known as Op;
  };
  const { appendWithin } = runs;
  return withMembers<RunBackend>({
    async flush(operations) {
      const answers = await runs.flush(operations.map(sealed));
      return answers.map((answer) => (answer === "again" ? answer : opens.answer(answer)));
    },
    async claim(query) {
      const { claimed, ...rest } = await runs.claim(query);
      return { ...rest, claimed: claimed.map((each) => opens.claimed(each)) };
    },
    async load(id) {
      const claimed = await runs.load(id);
      return claimed && opens.claimed(claimed);
    },
    renew: (query) => runs.renew(query),
    workers: () => runs.workers(),
    held: (owner, limit) => runs.held(owner, limit),
    workflows: (after, limit) => runs.workflows(after, limit),
    leave: (owner) => runs.leave(owner),
    mail: async (run, after) => (await runs.mail(run, after)).map((mail) => opens.mail(run, mail)),
    async read(id) {
      const run = await runs.read(id);
      return run && opens.run(run);
    },
    journal: async (id, after, limit) => (await runs.journal(id, after, limit)).map((entry) => opens.entry(id, entry)),
    list: async (query) => (await runs.list(query)).map((run) => opens.run(run)),
    count: (filter, max) => runs.count(filter, max),
    hooks: async (query) => (await runs.hooks(query)).map((hook) => opens.hook(hook)),
    async hook(token) {
      const hook = await runs.hook(token);
      return hook && opens.hook(hook);
    },
    chunks: async (query) => (await runs.chunks(query)).map((chunk) => opens.chunk(query, chunk)),
    overdueStops: (limit) => runs.overdueStops(limit),
    log: async (query) => (await runs.log(query)).map((entry) => opens.logged(entry)),
    tail: (run, stream) => runs.tail(run, stream),
    purge: (limit) => runs.purge(limit),
    watch: (changed) => runs.watch(changed),
    appendWithin: appendWithin && (async (tx: object, append: Append) => opens.answer(await appendWithin.call(runs, tx, sealed(append)))),
  });
}

/** The associated data of each text: must be the same for encryption and decryption. */
const dataOf = {
  run: (id: string, field: "input" | "output" | "trouble"): AssociatedData => ["run", id, field],
  events: (id: string, seq: number): AssociatedData => ["journal", id, seq],
  /** Without the chunk's index, which the store assigns only when it writes the chunk. */
  chunk: (run: string, stream: string): AssociatedData => ["chunk", run, stream],
  log: (action: string, field: "reason" | "detail"): AssociatedData => ["log", action, field],
  metadata: (run: string, token: string): AssociatedData => ["hook", run, token],
  /** For mail to a token without the run: only the store knows which run has that hook. */
  mail: (run: string | undefined, { kind, about }: Pick<Mail, "kind" | "about">): AssociatedData =>
    kind === "hook" || run === undefined ? ["mail", kind] : ["mail", kind, run, about],
};

function sealedOperation(operation: RunOperation, cipher: Cipher): RunOperation {
  switch (operation.verb) {
    case "start":
      return sealedStart(operation, cipher);
    case "append":
      return { ...operation, entry: sealedEntry(operation.entry, operation.id, operation.seq, cipher) };
    case "appendLate":
      return sealedLate(operation, cipher);
    case "write":
      return { ...operation, ...sealedChunks(operation, operation.id, cipher) };
    case "act":
      return sealedAct(operation, cipher);
    case "send": {
      const { to, payload } = operation;
      if (payload === null) return operation;
      return { ...operation, payload: cipher.seal(payload, dataOf.mail("run" in to ? to.run : undefined, operation)) };
    }
  }
}

function sealedLate(late: AppendLate, cipher: Cipher): AppendLate {
  const events = cipher.seal(late.events, dataOf.events(late.id, late.seq));
  return late.log === undefined ? { ...late, events } : { ...late, events, log: sealedLog(late.log, cipher) };
}

export function sealedLog(log: NewLogEntry, cipher: Cipher): NewLogEntry {
  const seal = (text: string | null, field: "reason" | "detail") => (text === null ? null : cipher.seal(text, dataOf.log(log.id, field)));
  return { ...log, reason: seal(log.reason, "reason"), detail: seal(log.detail, "detail") };
}

export function openedLog(entry: LogEntry, cipher: Cipher): LogEntry {
  const open = (field: "reason" | "detail") => (text: string) => cipher.open(text, dataOf.log(entry.id, field));
  return lazily(entry, { reason: open("reason"), detail: open("detail") });
}

function sealedAct(act: Act, cipher: Cipher): Act {
  const { id, change } = act;
  const sealed = { ...act, log: sealedLog(act.log, cipher) };
  switch (change.kind) {
    case "send": {
      const { mail } = change;
      const payload = mail.payload === null ? null : cipher.seal(mail.payload, dataOf.mail(id, mail));
      return { ...sealed, change: { ...change, mail: { ...mail, payload } } };
    }
    case "reopen": {
      const { events, hooks, seq } = change;
      const sealedHooks = hooks.map((hook) => sealedHook(hook, id, cipher) as typeof hook);
      const written = { events: cipher.seal(events, dataOf.events(id, seq)), hooks: sealedHooks };
      return { ...sealed, change: { ...change, ...sealedChunks(change, id, cipher), ...written } };
    }
    case "start":
      return { ...sealed, change: { ...change, start: sealedStart(change.start, cipher) } };
    case "remove":
      return sealed;
  }
}

function sealedStart(start: StartRun, cipher: Cipher): StartRun {
  const { id, first } = start;
  return {
    ...start,
    ...sealedChunks(start, id, cipher),
    input: cipher.seal(start.input, dataOf.run(id, "input")),
    first: first && { ...first, entry: sealedEntry(first.entry, id, 1, cipher) },
  };
}

function sealedEntry(entry: Entry, id: string, seq: number, cipher: Cipher): Entry {
  const { events, hooks, children, then } = entry;
  return {
    ...entry,
    ...sealedChunks(entry, id, cipher),
    events: events === null ? null : cipher.seal(events, dataOf.events(id, seq)),
    hooks: hooks.map((change) => sealedHook(change, id, cipher)),
    children: children.map((child) => sealedStart(child, cipher)),
    then: sealedThen(then, id, cipher),
    ...(entry.outgoing && { outgoing: entry.outgoing.map((mail) => sealedOutgoing(mail, cipher)) }),
  };
}

function sealedOutgoing(mail: OutgoingMail, cipher: Cipher): OutgoingMail {
  const { payload, to } = mail;
  return payload === null ? mail : { ...mail, payload: cipher.seal(payload, dataOf.mail(to.run, mail)) };
}

function sealedChunks(of: { readonly chunks?: readonly Chunk[] }, run: string, cipher: Cipher) {
  if (of.chunks === undefined) return {};
  return { chunks: of.chunks.map((chunk) => ({ ...chunk, data: sealedData(chunk, dataOf.chunk(run, chunk.stream), cipher) })) };
}

function sealedData({ data }: Chunk, bound: AssociatedData, cipher: Cipher): Chunk["data"] {
  if (data === null) return null;
  return typeof data === "string" ? cipher.seal(data, bound) : cipher.sealBytes(data, bound);
}

function sealedHook(change: HookChange, run: string, cipher: Cipher): HookChange {
  if (!("add" in change) || change.metadata === null) return change;
  return { ...change, metadata: cipher.seal(change.metadata, dataOf.metadata(run, change.add)) };
}

function sealedThen(then: Then, id: string, cipher: Cipher): Then {
  if (then.kind === "end") {
    const { output, trouble } = then;
    const troubled = trouble === undefined ? {} : { trouble: cipher.seal(trouble, dataOf.run(id, "trouble")) };
    return { ...then, ...troubled, output: output === null ? null : cipher.seal(output, dataOf.run(id, "output")) };
  }
  if (then.kind === "release" && then.trouble !== null) return { ...then, trouble: cipher.seal(then.trouble, dataOf.run(id, "trouble")) };
  return then;
}

class Opens {
  readonly #cipher: Cipher;

  constructor(cipher: Cipher) {
    this.#cipher = cipher;
  }

  answer(answer: RunAnswer): RunAnswer {
    if (answer.kind === "acted") return { ...answer, entry: this.logged(answer.entry) };
    return answer.kind === "exists" ? { ...answer, run: this.run(answer.run) } : answer;
  }

  logged(entry: LogEntry): LogEntry {
    return openedLog(entry, this.#cipher);
  }

  claimed({ run, lapsed, journal, mail, hooks }: Claimed): Claimed {
    return {
      run: this.run(run),
      lapsed,
      journal: journal.map((entry) => this.entry(run.id, entry)),
      mail: mail.map((each) => this.mail(run.id, each)),
      hooks: hooks.map((hook) => this.hook(hook)),
    };
  }

  run(run: RunRecord): RunRecord {
    const open = (field: "input" | "output" | "trouble") => (text: string) => this.#cipher.open(text, dataOf.run(run.id, field));
    return lazily(run, { input: open("input"), output: open("output"), trouble: open("trouble") });
  }

  entry(run: string, entry: JournalEntry): JournalEntry {
    return lazily(entry, { events: (text) => this.#cipher.open(text, dataOf.events(run, entry.seq)) });
  }

  chunk({ run, stream }: ChunkQuery, chunk: ChunkRecord): ChunkRecord {
    const { data } = chunk;
    const bound = dataOf.chunk(run, stream);
    if (data === null) return chunk;
    return { ...chunk, data: typeof data === "string" ? this.#cipher.open(data, bound) : this.#cipher.openBytes(data, bound) };
  }

  hook(hook: HookRecord): HookRecord {
    return lazily(hook, { metadata: (text) => this.#cipher.open(text, dataOf.metadata(hook.run, hook.token)) });
  }

  mail(run: string, mail: Mail): Mail {
    const made = (text: string) => mail.kind === "child" && !this.#cipher.isSealed(text);
    return lazily(mail, {
      payload: (text) => (made(text) ? this.#childEnd(mail.about ?? "", text) : this.#cipher.open(text, dataOf.mail(run, mail))),
    });
  }

  #childEnd(child: string, payload: string): string {
    const [status, output] = JSON.parse(payload) as [string, string | null];
    return JSON.stringify([status, output === null ? null : this.#cipher.open(output, dataOf.run(child, "output"))]);
  }
}
