import type { RunContext } from "./context.js";
import type { FlowResult } from "./result.js";

/** Fields of every event. */
interface Common {
  readonly flow: string;
  /** The same as `flow`. */
  readonly flowName: string;
  readonly input: unknown;
  /** The live context of the run: its input and the values that steps have set so far. */
  readonly context: RunContext;
}

interface StepEvent extends Common {
  readonly step: string;
  /** The same as `step`. */
  readonly stepName: string;
}

/**
 * An event of a flow run. Events arrive in order; `stepComplete` of a keyed run is emitted after the store has saved the
 * step's result.
 */
export type FlowEvent =
  | (Common & { readonly type: "flowStart"; readonly key: string | undefined; readonly resumed: boolean })
  | (StepEvent & { readonly type: "stepStart" })
  | (StepEvent & { readonly type: "stepRetry"; readonly attempt: number; readonly error: unknown; readonly delayMs: number })
  | (StepEvent & { readonly type: "stepComplete"; readonly attempts: number; readonly durationMs: number })
  | (StepEvent & { readonly type: "stepFail"; readonly attempts: number; readonly durationMs: number; readonly error: unknown })
  | (StepEvent & { readonly type: "compensate" })
  | (StepEvent & { readonly type: "compensateComplete"; readonly error?: unknown })
  | (Common & { readonly type: "flowComplete"; readonly result: FlowResult })
  /** The flow failed or was cancelled. */
  | (Common & { readonly type: "flowFail"; readonly result: FlowResult });

type Bare<Event> = Event extends FlowEvent ? Omit<Event, "flow" | "flowName" | "stepName" | "input" | "context"> : never;

/** An event before the fields that are common to all events of the run are added. */
export type NewEvent = Bare<FlowEvent>;

type Of<Type extends FlowEvent["type"]> = Extract<FlowEvent, { readonly type: Type }>;
type Hook<Type extends FlowEvent["type"]> = (event: Of<Type>) => unknown;

/**
 * Callbacks for the events of a flow. They are called in sequence and awaited. A callback that throws causes a warning
 * (`ONCEFLOW_FLOW_HOOK`) and does not affect the run.
 */
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

/** A reusable set of callbacks, passed as `plugins` to a flow. */
export interface FlowPlugin extends FlowHooks {
  readonly name: string;
  /** Called with every event, before the callback for that event type. */
  readonly onEvent?: (event: FlowEvent) => unknown;
  /** Wraps the body of every step, for example to run it inside an AsyncLocalStorage. Must call `body` and return its result. */
  readonly around?: <T>(step: string, body: () => T) => T;
}

/** Delivers an event to all listeners. Undefined if the run has no listeners, so that no event objects are created. */
export type EmitEvent = ((event: NewEvent) => Promise<void>) | undefined;

type Listener = FlowHooks & { readonly onEvent?: (event: FlowEvent) => unknown };

export function createEmitter(listeners: readonly Listener[], flow: string, context: RunContext): EmitEvent {
  if (listeners.length === 0) return undefined;
  const common = { flow, flowName: flow, input: context.input, context };
  return async (newEvent) => {
    const event = { ...newEvent, ...common, ...("step" in newEvent ? { stepName: newEvent.step } : {}) } as FlowEvent;
    const name = `on${event.type.charAt(0).toUpperCase()}${event.type.slice(1)}` as keyof FlowHooks;
    for (const listener of listeners) {
      try {
        await listener.onEvent?.(event);
        await (listener[name] as ((event: FlowEvent) => unknown) | undefined)?.(event);
      } catch (error) {
        process.emitWarning(
          `a listener of flow "${event.flow}" threw an error in ${name}: ${error instanceof Error ? error.message : String(error)}`,
          {
            type: "OnceflowWarning",
            code: "ONCEFLOW_FLOW_HOOK",
          },
        );
      }
    }
  };
}
