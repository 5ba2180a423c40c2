import { isHeard, publish } from "../../core/events/channels.js";
import type { StepEvent } from "../../core/events/event.js";
import type { StepDefinition } from "../define/definition.js";
import type { AttemptEvent, Event } from "../journal/event.js";
import { isAttemptEvent } from "../journal/event.js";

/** The run whose attempts are published. */
interface ReportedRun {
  readonly id: string;
  readonly workflow: { readonly name: string };
  readonly store: { readonly name: string };
  readonly calls: {
    called(
      id: string,
    ): { readonly definition: StepDefinition; readonly attempt: number; readonly bodyBeganAt: number | undefined } | undefined;
  };
  stepIdOf(call: string): string;
}

/** The entry with these events is durable: publishes the verdicts in it. */
export function reportVerdicts(run: ReportedRun, recorded: readonly Event[]): void {
  if (!isHeard("step")) return;
  for (const event of recorded) {
    if (!isAttemptEvent(event) || event.type === "step") continue;
    const call = run.calls.called(event.id);
    if (call === undefined) continue;
    const { definition, attempt, bodyBeganAt } = call;
    const isOwn = attempt === event.attempt && !("how" in event && isForeign(event.how));
    const ms = isOwn && bodyBeganAt !== undefined ? Math.max(0, event.at - bodyBeganAt) : undefined;
    reportVerdict({ ...aboutRun(run), step: definition.name, stepId: run.stepIdOf(event.id), ms }, event);
  }
}

function isForeign(how: string | undefined): boolean {
  return how === "resolved" || how === "reconciled";
}

function aboutRun({ id, workflow, store }: Pick<ReportedRun, "id" | "workflow" | "store">) {
  return { store: store.name, run: id, workflow: workflow.name };
}

type Verdict = Extract<StepEvent, { readonly type: "verdict" }>;

/** Publishes one verdict that is durable. */
export function reportVerdict(
  about: Pick<Verdict, "store" | "run" | "workflow" | "step" | "stepId" | "ms">,
  event: Exclude<AttemptEvent, { readonly type: "step" }>,
): void {
  const how = "how" in event ? event.how : undefined;
  publish("step", { type: "verdict", ...about, attempt: event.attempt, verdict: verdictOf(event), how });
}

function verdictOf(event: Exclude<AttemptEvent, { readonly type: "step" }>): Verdict["verdict"] {
  if (event.type === "done") return "completed";
  if (event.type === "doubt") return "unknown";
  return event.retryAt === null ? "failed" : "retry";
}
