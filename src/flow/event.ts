import type { RunContext } from "./context.js";
import type { FlowResult } from "./result.js";

/** What every event has. */
interface Common {
  readonly flow: string;
  /** The same as `flow`. */
  readonly flowName: string;
  readonly input: unknown;
  /** The values that steps hand on, as they are now. */
  readonly context: RunContext;
}

interface OfStep extends Common {
  readonly step: string;
  /** The same as `step`. */
  readonly stepName: string;
}

/** What happens in a run, in order. A step that is told as complete is in the store, where there is one. */
export type FlowEvent =
  | (Common & { readonly type: "flowStart"; readonly key: string | undefined; readonly resumed: boolean })
  | (OfStep & { readonly type: "stepStart" })
  | (OfStep & { readonly type: "stepRetry"; readonly attempt: number; readonly error: unknown; readonly delayMs: number })
  | (OfStep & { readonly type: "stepComplete"; readonly attempts: number; readonly durationMs: number })
  | (OfStep & { readonly type: "stepFail"; readonly attempts: number; readonly durationMs: number; readonly error: unknown })
  | (OfStep & { readonly type: "compensate" })
  | (OfStep & { readonly type: "compensateComplete"; readonly error?: unknown })
  /** It ended well. */
  | (Common & { readonly type: "flowComplete"; readonly result: FlowResult })
  /** It failed or was cancelled. */
  | (Common & { readonly type: "flowFail"; readonly result: FlowResult });

type Bare<Event> = Event extends FlowEvent ? Omit<Event, "flow" | "flowName" | "stepName" | "input" | "context"> : never;

/** An event without what the run adds to each. */
export type NewEvent = Bare<FlowEvent>;

type Of<Type extends FlowEvent["type"]> = Extract<FlowEvent, { readonly type: Type }>;
type Hook<Type extends FlowEvent["type"]> = (event: Of<Type>) => unknown;

/** Called one after the other, and awaited. One that throws is warned about, and changes nothing. */
export interface FlowHooks {
  readonly onFlowStart?: Hook<"flowStart">;
  readonly onFlowComplete?: Hook<"flowComplete">;
  readonly onFlowFail?: Hook<"flowFail">;
  readonly onStepStart?: Hook<"stepStart">;
  readonly onStepComplete?: Hook<"stepComplete">;
  readonly onStepFail?: Hook<"stepFail">;
  readonly onCompensate?: Hook<"compensate">;
  readonly onCompensateComplete?: Hook<"compensateComplete">;
}

export interface FlowPlugin extends FlowHooks {
  readonly name: string;
  /** Told of every event, before the hook of its name. */
  readonly onEvent?: (event: FlowEvent) => unknown;
  /** Runs a step's body in a surrounding of its own. */
  readonly around?: <T>(step: string, body: () => T) => T;
}

/** Undefined when there is no listener: then no event is made. */
export type Tell = ((event: NewEvent) => Promise<void>) | undefined;

type Listener = FlowHooks & { readonly onEvent?: (event: FlowEvent) => unknown };

export function tellOf(listeners: readonly Listener[], flow: string, context: RunContext): Tell {
  if (listeners.length === 0) return undefined;
  const common = { flow, flowName: flow, input: context.input, context };
  return async (told) => {
    const event = { ...told, ...common, ...("step" in told ? { stepName: told.step } : {}) } as FlowEvent;
    const name = `on${event.type.charAt(0).toUpperCase()}${event.type.slice(1)}` as keyof FlowHooks;
    for (const listener of listeners) {
      try {
        await listener.onEvent?.(event);
        await (listener[name] as ((event: FlowEvent) => unknown) | undefined)?.(event);
      } catch (error) {
        process.emitWarning(
          `a listener of flow "${event.flow}" threw at ${name}: ${error instanceof Error ? error.message : String(error)}`,
          {
            type: "OnceflowWarning",
            code: "ONCEFLOW_FLOW_HOOK",
          },
        );
      }
    }
  };
}
