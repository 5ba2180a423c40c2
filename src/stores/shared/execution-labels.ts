import type { ExecutionRecord } from "../../core/packets/packet.js";
import type { Attributes } from "../../core/values/attributes.js";

/** Scope and attributes as columns. */
export interface FoundLabels {
  readonly scope: string | null;
  readonly attributes: string | null;
}

/** The members of an execution, absent if it has none. */
export function labelsIn({ scope, attributes }: FoundLabels): Pick<ExecutionRecord, "scope" | "attributes"> {
  return {
    ...(scope !== null && { scope }),
    ...(attributes !== null && { attributes: JSON.parse(attributes) as Attributes }),
  };
}
