import { type RunContext, runReconcile } from "../define/context.js";
import type { StepDefinition } from "../define/definition.js";
import { type EncodedResult, type Encoder, encodedResult } from "./encoded-result.js";

/** An attempt whose outcome is unknown. */
export interface AttemptInDoubt {
  readonly step: string;
  readonly runId: string;
  readonly attempt: number;
}

/** The run of an attempt whose outcome is unknown. */
export interface AskingRun extends RunContext, Encoder {
  readonly host: {
    /** Calls `reconcile`, unless a test mocks it. */
    ask(about: AttemptInDoubt, reconcile: () => unknown): unknown;
  };
}

interface Doubt {
  readonly definition: StepDefinition;
  readonly stepId: string;
  readonly attempt: number;
  readonly input: () => readonly unknown[];
}

type ProviderAnswer =
  | { readonly kind: "absent" }
  | { readonly kind: "found"; readonly result: EncodedResult }
  | { readonly kind: "unknown"; readonly why: string };

/** Calls `reconcile` to find out whether the attempt had its effect. */
export async function askProvider(run: AskingRun, { definition, stepId, attempt, input }: Doubt): Promise<ProviderAnswer> {
  const { reconcile } = definition.options();
  try {
    const ask = () => reconcile?.({ stepId, attempt, input: input() as never[] });
    const answer = await runReconcile(run, () => run.host.ask({ step: definition.name, runId: run.id, attempt }, ask));
    if (answer === "absent") return { kind: "absent" };
    if (typeof answer === "object" && answer !== null && "found" in answer)
      return { kind: "found", result: await encodedResult(run, answer.found) };
    return { kind: "unknown", why: "reconcile did not return a known outcome" };
  } catch (error) {
    return { kind: "unknown", why: `reconcile threw ${error instanceof Error ? error.name : typeof error}` };
  }
}
