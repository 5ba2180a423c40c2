import { type RunContext, runReconcile } from "../define/context.js";
import type { StepDefinition } from "../define/definition.js";
import { type EncodedResult, type Encoder, encodedResult } from "./encoded-result.js";

/** The attempt in doubt. */
export interface Asked {
  readonly step: string;
  readonly runId: string;
  readonly attempt: number;
}

/** The run of an attempt in doubt. */
export interface AskingRun extends RunContext, Encoder {
  readonly host: {
    /** Asks the other side about an attempt in doubt: by `reconcile`, unless a test stands in between. */
    ask(about: Asked, reconcile: () => unknown): unknown;
  };
}

interface Doubt {
  readonly definition: StepDefinition;
  readonly stepId: string;
  readonly attempt: number;
  readonly input: () => readonly unknown[];
}

export type OtherSide =
  | { readonly kind: "absent" }
  | { readonly kind: "found"; readonly result: EncodedResult }
  | { readonly kind: "unknown"; readonly why: string };

/** Whether the attempt had its effect, as the other side knows it. */
export async function askOtherSide(run: AskingRun, { definition, stepId, attempt, input }: Doubt): Promise<OtherSide> {
  const { reconcile } = definition.options();
  try {
    const ask = () => reconcile?.({ stepId, attempt, input: input() as never[] });
    const answer = await runReconcile(run, () => run.host.ask({ step: definition.name, runId: run.id, attempt }, ask));
    if (answer === "absent") return { kind: "absent" };
    if (typeof answer === "object" && answer !== null && "found" in answer)
      return { kind: "found", result: await encodedResult(run, answer.found) };
    return { kind: "unknown", why: "reconcile could not tell" };
  } catch (error) {
    return { kind: "unknown", why: `reconcile threw ${error instanceof Error ? error.name : typeof error}` };
  }
}
