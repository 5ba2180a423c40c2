import type { memoryTarget } from "onceflow/testing";

/** Each sabotage wraps the runs of the memory store and breaks one guarantee. The run contract must find all of them. */
export type Sabotage = NonNullable<Parameters<typeof memoryTarget>[0]["runs"]>;
export type Runs = Parameters<Sabotage>[0];
export type Memory = Parameters<Sabotage>[1];
export type Operation = Parameters<Runs["flush"]>[0][number];
export type Append = Extract<Operation, { readonly verb: "append" }>;
export type Answer = Awaited<ReturnType<Runs["flush"]>>[number];

export const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Passes every operation to `meddle`, which may forward it, changed or not, and change the memory before and after. */
export function meddling(
  meddle: (operation: Operation, pass: (operation: Operation) => Promise<Answer>, memory: Memory) => Promise<Answer>,
): Sabotage {
  return (faithful, memory) => ({
    ...faithful,
    async flush(operations) {
      const pass = async (operation: Operation) => (await faithful.flush([operation]))[0] as Answer;
      const answers: Answer[] = [];
      for (const operation of operations) answers.push(await meddle(operation, pass, memory));
      return answers;
    },
  });
}

export const appends = (
  meddle: (append: Append, pass: (operation: Operation) => Promise<Answer>, memory: Memory) => Promise<Answer>,
): Sabotage => meddling((operation, pass, memory) => (operation.verb === "append" ? meddle(operation, pass, memory) : pass(operation)));

export type Act = Extract<Operation, { readonly verb: "act" }>;
export const acts = (meddle: (act: Act, pass: (operation: Operation) => Promise<Answer>, memory: Memory) => Promise<Answer>): Sabotage =>
  meddling((operation, pass, memory) => (operation.verb === "act" ? meddle(operation, pass, memory) : pass(operation)));

export type Write = Extract<Operation, { readonly verb: "write" }>;
export const writes = (
  meddle: (write: Write, pass: (operation: Operation) => Promise<Answer>, memory: Memory) => Promise<Answer>,
): Sabotage => meddling((operation, pass, memory) => (operation.verb === "write" ? meddle(operation, pass, memory) : pass(operation)));

export type Late = Extract<Operation, { readonly verb: "appendLate" }>;
export const lates = (meddle: (late: Late, pass: (operation: Operation) => Promise<Answer>, memory: Memory) => Promise<Answer>): Sabotage =>
  meddling((operation, pass, memory) => (operation.verb === "appendLate" ? meddle(operation, pass, memory) : pass(operation)));

export const renews =
  (renew: (faithful: Runs, query: Parameters<Runs["renew"]>[0]) => ReturnType<Runs["renew"]>): Sabotage =>
  (faithful) => ({ ...faithful, renew: (query) => renew(faithful, query) });

export const claims =
  (claim: (faithful: Runs, memory: Memory) => Runs["claim"]): Sabotage =>
  (faithful, memory) => ({
    ...faithful,
    claim: claim(faithful, memory),
  });

export const kindOf = (answer: Answer) => (answer === "again" ? answer : answer.kind);

export const lengthOf = ({ journals }: Memory, id: string) => journals.get(id)?.length ?? 0;

export function edit({ runs }: Memory, id: string, change: (run: NonNullable<ReturnType<Memory["runs"]["get"]>>) => object): void {
  const run = runs.get(id);
  if (run) runs.set(id, { ...run, ...change(run) });
}

/** The broken guarantee, the verb under which the contract must find it, and the sabotage. */
export type BrokenGuarantee = readonly [does: string, verb: string, sabotage: Sabotage];
