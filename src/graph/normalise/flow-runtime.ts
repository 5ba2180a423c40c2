import type { Findings } from "../findings/finding.js";
import type { Fields } from "./fields.js";
import type { FlowRuntime } from "./model.js";

/** Members of `x-runtime` that the runtime reads, and their members. Others are reported by `validate/unsupported.ts`. */
export const flowRuntimeFields: Readonly<Record<string, readonly string[]>> = { mongodb: ["idempotencyKeys"] };

export function readFlowRuntime(flow: Fields, findings: Findings): FlowRuntime {
  const mongodb = flow.fields("x-runtime")?.fields("mongodb");
  const text = mongodb?.text("idempotencyKeys");
  const spot = mongodb?.at("idempotencyKeys");
  if (text === undefined || spot === undefined) return {};
  if (text !== "" && !/[$\0]/.test(text) && !text.startsWith("system.")) return { keyCollection: { text, spot } };
  findings.add(
    "FLOW_BAD_VALUE",
    spot,
    `${JSON.stringify(text)} cannot be the name of a collection`,
    'use a name without $ and NUL that does not begin with "system."',
  );
  return {};
}
