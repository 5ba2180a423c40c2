import type { FlowResult } from "./result.js";

/** What happens in a run, in order. A step that is told as complete is in the store, where there is one. */
export type FlowEvent =
  | { readonly type: "flowStart"; readonly flow: string; readonly key: string | undefined; readonly resumed: boolean }
  | { readonly type: "stepStart"; readonly flow: string; readonly step: string }
  | {
      readonly type: "stepRetry";
      readonly flow: string;
      readonly step: string;
      readonly attempt: number;
      readonly error: unknown;
      readonly delayMs: number;
    }
  | { readonly type: "stepComplete"; readonly flow: string; readonly step: string; readonly attempts: number; readonly durationMs: number }
  | {
      readonly type: "stepFail";
      readonly flow: string;
      readonly step: string;
      readonly attempts: number;
      readonly durationMs: number;
      readonly error: unknown;
    }
  | { readonly type: "compensate"; readonly flow: string; readonly step: string }
  | { readonly type: "compensateComplete"; readonly flow: string; readonly step: string; readonly error?: unknown }
  /** It ended well. */
  | { readonly type: "flowComplete"; readonly flow: string; readonly result: FlowResult }
  /** It failed or was cancelled. */
  | { readonly type: "flowFail"; readonly flow: string; readonly result: FlowResult };

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

/** Undefined when nobody listens: then nothing is made to be told. */
export type Tell = ((event: FlowEvent) => Promise<void>) | undefined;

export function tellOf(listeners: readonly (FlowHooks & { readonly onEvent?: (event: FlowEvent) => unknown })[]): Tell {
  if (listeners.length === 0) return undefined;
  return async (event) => {
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
