import { InvalidInputError } from "../../core/errors/errors.js";
import { type Finding, Findings, wholeFile } from "../findings/finding.js";
import { normalise } from "../normalise/normalise.js";
import { link } from "../plan/link.js";
import { PacketTypes } from "../plan/packets.js";
import type { FlowPlan } from "../plan/plan.js";
import { validate } from "../validate/index.js";
import { findUnsupported } from "../validate/unsupported.js";
import { Components } from "./components.js";
import { loadExternal } from "./external.js";
import { defaultLimits, type Limits } from "./limits.js";
import { loadTree } from "./load.js";
import { readText } from "./read-text.js";

/** A path, or the text of a document. `file` is used in findings and to resolve relative references. */
export type FlowSource = string | { readonly text: string; readonly file?: string };

/** Options of `loadFlows`. */
export interface LoadOptions {
  /** Whether documents may be fetched from the network. Default false. */
  readonly allowRemote?: boolean;
  readonly limits?: Partial<Limits>;
}

/** The result of `loadFlows`. */
export interface LoadedFlows {
  /** True if there are no errors. */
  readonly ok: boolean;
  /** One plan per flow; empty if there are errors. */
  readonly flows: readonly FlowPlan[];
  readonly findings: readonly Finding[];
}

/**
 * Loads a flow document in either dialect and reports everything that is wrong with it. A file that cannot be read is a finding,
 * too. Throws InvalidInputError only for wrong arguments.
 *
 * @example
 * const { ok, flows, findings } = await loadFlows("orders.flowdsl.yaml");
 */
export async function loadFlows(from: FlowSource, options: LoadOptions = {}): Promise<LoadedFlows> {
  const limits = limitsOf(options.limits);
  if (typeof from !== "string" && typeof (from as { readonly text?: unknown } | undefined)?.text !== "string")
    throw new InvalidInputError("source", "must be a path, or { text, file }");
  const findings = new Findings(limits.findingsMax);
  const file = typeof from === "string" ? from : (from.file ?? "flow.yaml");
  const text = typeof from === "string" ? await readText(from, limits.bytesMax) : from.text;
  if (typeof text !== "string") findings.add(text.code, wholeFile(file), `cannot be read: ${text.problem}`, text.fix);
  const flows = typeof text === "string" ? await plansOf({ text, file }, options.allowRemote ?? false, limits, findings) : [];
  const ok = !findings.hasErrors;
  return { ok, flows: ok ? flows : [], findings: findings.list(file) };
}

function limitsOf(given: Partial<Limits> = {}): Limits {
  const limits: Limits = { ...defaultLimits, ...given };
  for (const [name, value] of Object.entries(limits))
    if (!Number.isSafeInteger(value) || value < 1) throw new InvalidInputError(`limits.${name}`, "must be a positive integer");
  return limits;
}

/** Load → normalise → link → validate → find unsupported fields. */
async function plansOf(
  text: { readonly text: string; readonly file: string },
  allowRemote: boolean,
  limits: Limits,
  findings: Findings,
): Promise<readonly FlowPlan[]> {
  const root = loadTree(text, limits, findings);
  if (root === undefined) return [];
  const components = new Components(root, findings);
  const document = normalise(root, components, findings);
  if (document === undefined) return [];
  const packets = new PacketTypes(root, components, await loadExternal(root, { allowRemote, limits }, findings), findings);
  const linked = document.flows.map((flow) => link(flow, document.info, packets, findings));
  validate(linked, findings);
  components.reportUnused();
  packets.checkUnused();
  return linked.map((each) => ({ ...each.plan, unsupported: findUnsupported(each, { tree: root, pointer: "" }, findings) }));
}
