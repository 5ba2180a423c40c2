import { SimulationFailure, simulateWorkflows, type WorkflowSimulationOptions } from "onceflow/testing";
import { describe, expect, test } from "vitest";
import { muteWarnings } from "../../kit/warnings.js";

muteWarnings("ONCEFLOW_NOT_SAVED");

/** A store that does an operator's action wrongly: the simulation must find each of them. */
type Runs = Parameters<NonNullable<WorkflowSimulationOptions["runs"]>>[0];
type Memory = Parameters<NonNullable<WorkflowSimulationOptions["runs"]>>[1];
type Operation = Parameters<Runs["flush"]>[0][number];
type Act = Extract<Operation, { readonly verb: "act" }>;
type Answer = Awaited<ReturnType<Runs["flush"]>>[number];
type Pass = (operation: Operation) => Promise<Answer>;
type Event = readonly [type: string, about: string, at: number, ...rest: unknown[]];

const acts = (apply: (act: Act, pass: Pass, memory: Memory) => Promise<Answer>): WorkflowSimulationOptions => ({
  operators: true,
  runs: (faithful, memory) => ({
    ...faithful,
    async flush(operations) {
      const pass: Pass = async (operation) => (await faithful.flush([operation]))[0] as Answer;
      const answers: Answer[] = [];
      for (const operation of operations) answers.push(await (operation.verb === "act" ? apply(operation, pass, memory) : pass(operation)));
      return answers;
    },
  }),
});

/** Something that happens after a retry was written. */
const afterRetry = (spoil: (act: Act, memory: Memory) => void) =>
  acts(async (act, pass, memory) => {
    const answer = await pass(act);
    if (act.change.kind === "reopen" && answer !== "again" && answer.kind === "acted" && !answer.repeated) spoil(act, memory);
    return answer;
  });

const eventsIn = (text: string) => JSON.parse(text) as Event[];

const sabotages: Record<string, WorkflowSimulationOptions> = {
  "keeps the parent's mail with the failure of a retried child": acts(async (act, pass, memory) => {
    const boxes = new Map([...memory.mailboxes].map(([run, { keys, mail }]) => [run, { keys: new Map(keys), mail: [...mail] }]));
    const answer = await pass(act);
    if (act.change.kind === "reopen") for (const [run, box] of boxes) memory.mailboxes.set(run, box);
    return answer;
  }),
  "drops results that were recorded after the cut": afterRetry(({ id }, memory) => {
    const journal = memory.journals.get(id) ?? [];
    const [, , , cuts] = eventsIn(journal.at(-1)?.events ?? "[]")[0] as unknown as [string, string, number, string[]];
    const cut = journal.findIndex(({ events }) => eventsIn(events).some(([type, about]) => type === "fail" && cuts.includes(about)));
    if (cut < 0) return;
    const without = (events: string) => JSON.stringify(eventsIn(events).filter(([type]) => type !== "done"));
    memory.journals.set(
      id,
      journal.map((entry, i) => (i < cut ? entry : { ...entry, events: without(entry.events) })),
    );
  }),
  "does not raise the epoch of a retried run": afterRetry(({ id }, memory) => {
    const run = memory.runs.get(id);
    if (run !== undefined) memory.runs.set(id, { ...run, epoch: run.epoch - 1 });
  }),
  "gives a step that began after the cut its old id again": acts(async (act, pass) => {
    if (act.change.kind !== "reopen") return await pass(act);
    const events = eventsIn(act.change.events).map((event) => (event[0] === "retry" ? event.with(4, []) : event));
    return await pass({ ...act, change: { ...act.change, events: JSON.stringify(events) } });
  }),
  "derives the copied part of a fork from the new run": {
    operators: true,
    runs: (faithful) => ({
      ...faithful,
      async claim(query) {
        const { claimed, ...rest } = await faithful.claim(query);
        const own = (run: string, events: string) =>
          JSON.stringify(eventsIn(events).map((event) => (event[0] === "fork" ? event.with(1, run) : event)));
        const journalOf = (one: (typeof claimed)[number]) =>
          one.journal.map((entry) => ({ ...entry, events: own(one.run.id, entry.events) }));
        return { ...rest, claimed: claimed.map((one) => ({ ...one, journal: journalOf(one) })) };
      },
    }),
  },
  "does an action on a state that has changed": acts(async (act, pass, memory) => {
    const seq = (memory.journals.get(act.id)?.length ?? 0) + 1;
    const change = act.change.kind === "reopen" ? { ...act.change, seq } : act.change;
    const run = memory.runs.get(act.id);
    // The state on which the action was decided is not compared, neither by the store nor by its rules.
    if (act.change.kind === "reopen" && run !== undefined) memory.runs.set(act.id, { ...run, status: "failed" });
    return await pass({ ...act, expect: {}, change });
  }),
  "does an action again that is sent again": acts(async (act, pass, memory) => {
    const isRepeated = memory.log.some(({ id }) => id === act.log.id);
    return await pass(isRepeated ? { ...act, log: { ...act.log, id: `${act.log.id} again` } } : act);
  }),
  "logs an action that it refuses": acts(async (act, pass, memory) => {
    const answer = await pass(act);
    if (answer !== "again" && answer.kind !== "acted") memory.log.push({ ...act.log, no: memory.log.length + 1, at: 0 });
    return answer;
  }),
};

/** The broken promise that the simulation has to name, where another check could notice something by chance. */
const reasons: Readonly<Record<string, RegExp>> = {
  "keeps the parent's mail with the failure of a retried child":
    /its parent still has the mail with its failure$|its parent "\w+" has already received the failure/,
  "gives a step that began after the cut its old id again": /a retry has dropped it after it had begun$|but renews|has a wrong end of/,
  "derives the copied part of a fork from the new run":
    /diverged|called the provider|resolved attempt|without a journal entry|was consumed, but the outcome is still unknown/,
  "does an action again that is sent again": /was done|changed something|has a wrong end of|was refused/,
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

describe("the simulation of operators finds a store that", () => {
  for (const [name, sabotage] of Object.entries(sabotages))
    test(name, async () => {
      const failure = await findFailure(sabotage);
      expect(failure?.cause).toBeInstanceOf(Error);
      expect(String(failure?.cause)).toMatch(reasons[name] ?? /./);
      expect(failure?.message).toMatch(/to reproduce: npm run simulate -- --workflows --operators --seed \d+$/);
    });
});
