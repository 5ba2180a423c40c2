import { SimulationFailure, simulateWorkflows, type WorkflowSimulationOptions } from "onceflow/testing";
import { describe, expect, test } from "vitest";
import { muteWarnings } from "../../kit/warnings.js";

muteWarnings("ONCEFLOW_NOT_SAVED");

type Runs = Parameters<NonNullable<WorkflowSimulationOptions["runs"]>>[0];
type Memory = Parameters<NonNullable<WorkflowSimulationOptions["runs"]>>[1];
type Claimed = Awaited<ReturnType<Runs["claim"]>>["claimed"][number];
type Mail = Claimed["mail"][number];
type Event = readonly [type: string, about: string, at: number, ...rest: unknown[]];

const base = { operators: true, stops: true } as const;

/** A worker that gets its runs in another form. */
const claims = (spoil: (claimed: Claimed) => Claimed): WorkflowSimulationOptions => ({
  ...base,
  engine: (runs) => ({
    ...runs,
    async claim(query) {
      const { claimed, ...rest } = await runs.claim(query);
      return { ...rest, claimed: claimed.map(spoil) };
    },
  }),
});

/** A worker that gets its mail in another form. */
const mails = (spoil: (mail: Mail, claimed: Claimed | undefined) => Mail[]): WorkflowSimulationOptions => ({
  ...base,
  engine: (runs) => ({
    ...runs,
    async claim(query) {
      const { claimed, ...rest } = await runs.claim(query);
      return { ...rest, claimed: claimed.map((one) => ({ ...one, mail: one.mail.flatMap((mail) => spoil(mail, one)) })) };
    },
    mail: async (run, after) => (await runs.mail(run, after)).flatMap((mail) => spoil(mail, undefined)),
  }),
});

/** Something that happens in the store after an operation was answered. */
const stores = (
  spoil: (operation: Parameters<Runs["flush"]>[0][number], answer: string, memory: Memory) => void,
): WorkflowSimulationOptions => ({
  ...base,
  runs: (faithful, memory) => ({
    ...faithful,
    async flush(operations) {
      const answering = faithful.flush(operations);
      const answers = await answering;
      operations.forEach((operation, i) => {
        const answer = answers[i];
        if (answer !== undefined && answer !== "again") spoil(operation, answer.kind, memory);
      });
      return answers;
    },
  }),
});

const eventsIn = (text: string) => JSON.parse(text) as Event[];
const withEvents = (claimed: Claimed, change: (events: Event[]) => Event[]): Claimed => ({
  ...claimed,
  journal: claimed.journal.map((entry) => ({ ...entry, events: JSON.stringify(change(eventsIn(entry.events))) })),
});

const sabotages: Record<string, readonly [WorkflowSimulationOptions, RegExp]> = {
  "executes a paused run": [
    claims((claimed) => withEvents(claimed, (events) => events.filter(([type]) => type !== "pause" && type !== "resume"))),
    /(began|started) while the run was paused$/,
  ],
  "loses a cancellation at a takeover": [
    mails((mail, claimed) => (mail.kind === "cancel" && claimed?.lapsed ? [] : [mail])),
    /consumed the request \d+ to (cancel|terminate) it, but it goes on$/,
  ],
  "ignores a termination that comes before the code is live": [
    mails((mail, claimed) => (mail.kind === "cancel" && claimed !== undefined ? [{ ...mail, kind: "withdrawn", payload: null }] : [mail])),
    /consumed the request \d+ to (cancel|terminate) it, but it goes on$/,
  ],
  "takes a cancellation of before a retry for a new one": [
    claims((claimed) => withEvents(claimed, (events) => events.map((event) => (event[0] === "retry" ? event.with(5, 0) : event) as Event))),
    /although nothing asked for that$/,
  ],
  "lets a wake-up end every sleep": [
    mails((mail) => [mail.kind === "wake" ? { ...mail, payload: null } : mail]),
    /sleep#\d+ ended \d+ ms early$/,
  ],
  "cancels a run before its deadline": [
    claims((claimed) => ({
      ...claimed,
      run: { ...claimed.run, deadlineAt: claimed.run.deadlineAt == null ? null : claimed.run.deadlineAt - 50 },
    })),
    /although nothing asked for that$/,
  ],
  "leaves a cancelled run its owner": [
    {
      ...base,
      runs: (faithful, memory) => ({
        ...faithful,
        async flush(operations) {
          const owners = new Map([...memory.runs].map(([id, { owner }]) => [id, owner]));
          const answering = faithful.flush(operations);
          for (const operation of operations) {
            const run = operation.verb === "append" ? memory.runs.get(operation.id) : undefined;
            if (run?.status === "cancelled") memory.runs.set(run.id, { ...run, owner: owners.get(run.id) ?? null });
          }
          return await answering;
        },
      }),
    },
    /has ended, but still has an owner$/,
  ],
  "changes a run although it refuses the action": [
    {
      ...base,
      runs: (faithful, memory) => ({
        ...faithful,
        async flush(operations) {
          const ended = operations.flatMap((operation) => {
            const run = operation.verb === "act" && operation.change.kind === "send" ? memory.runs.get(operation.id) : undefined;
            return run !== undefined && run.endedAt !== null ? [run] : [];
          });
          const answering = faithful.flush(operations);
          for (const run of ended) memory.runs.set(run.id, { ...run, stopAt: 1 });
          return await answering;
        },
      }),
    },
    /was refused \(ended\), but it changed something$/,
  ],
  "accepts a cancellation twice": [
    stores((operation, answer, memory) => {
      if (operation.verb !== "act" || answer !== "acted" || operation.change.kind !== "send" || operation.log.action !== "cancel") return;
      memory.log.push({ ...operation.log, no: memory.log.length + 1, at: 0 });
    }),
    /2 entries in the operator log$|new log entries|it is logged again/,
  ],
};

const seedsMax = 600;

async function findFailure(sabotage: WorkflowSimulationOptions): Promise<SimulationFailure | undefined> {
  for (let seed = 1; seed <= seedsMax; seed++) {
    try {
      await simulateWorkflows(seed, sabotage);
    } catch (error) {
      if (error instanceof SimulationFailure) return error;
      throw error;
    }
  }
  return undefined;
}

describe("the simulation of operators who stop runs finds an engine or a store that", () => {
  for (const [name, [sabotage, reason]] of Object.entries(sabotages))
    test(name, async () => {
      const failure = await findFailure(sabotage);
      expect(String(failure?.cause)).toMatch(reason);
      expect(failure?.message).toMatch(/to reproduce: npm run simulate -- --workflows --operators --stops --seed \d+$/);
    });
});
