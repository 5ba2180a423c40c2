import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { type Finding, Findings, wholeFile } from "../findings/finding.js";
import { normalise } from "../normalise/normalise.js";
import { link } from "../plan/link.js";
import { linkChildren } from "../plan/link-children.js";
import { PacketTypes } from "../plan/packets.js";
import type { FlowPlan } from "../plan/plan.js";
import { validate } from "../validate/index.js";
import { findUnsupported } from "../validate/unsupported.js";
import { Components } from "./components.js";
import { External, type ExternalOptions } from "./external/external.js";
import type { References } from "./external/location.js";
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
  /**
   * Replaces addresses of other documents: `{ "/asyncapi.json": "./asyncapi.json" }`. Each name is an address as written in a
   * document; its value is the path or URL to use in its place, relative to the working directory.
   */
  readonly references?: References;
}

const optionNames: OptionNames<LoadOptions> = { allowRemote: true, limits: true, references: true };

/** The options of `loadFlows` among other options. */
export function loadOptionsOf({ allowRemote, limits, references }: LoadOptions): LoadOptions {
  return { ...(allowRemote !== undefined && { allowRemote }), ...(limits && { limits }), ...(references && { references }) };
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
  knownOptions("loadFlows", options, optionNames);
  const { allowRemote = false } = options;
  const [limits, references] = [limitsOf(options.limits), checkReferences(options.references)];
  if (typeof from !== "string" && typeof (from as { readonly text?: unknown } | undefined)?.text !== "string")
    throw new InvalidInputError("source", "must be a path, or { text, file }");
  const findings = new Findings(limits.findingsMax);
  const file = typeof from === "string" ? from : (from.file ?? "flow.yaml");
  const text = typeof from === "string" ? await readText(from, limits.bytesMax) : from.text;
  if (typeof text !== "string") findings.add(text.code, wholeFile(file), `cannot be read: ${text.problem}`, text.fix);
  const flows = typeof text === "string" ? await plansOf({ text, file }, { allowRemote, limits, references }, findings) : [];
  const ok = !findings.hasErrors;
  return { ok, flows: ok ? flows : [], findings: findings.list(file) };
}

/** Throws InvalidInputError unless it is a map of addresses. */
export function checkReferences(given: References = {}): References {
  if (typeof given !== "object" || given === null || Array.isArray(given)) throw new InvalidInputError("references", "must be an object");
  for (const [address, target] of Object.entries(given))
    if (address === "" || typeof target !== "string" || target === "")
      throw new InvalidInputError(`references[${JSON.stringify(address)}]`, "must be the path or URL to use instead of this address");
  return given;
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
  options: ExternalOptions,
  findings: Findings,
): Promise<readonly FlowPlan[]> {
  const root = loadTree(text, options.limits, findings);
  if (root === undefined) return [];
  const components = new Components(root, findings);
  const document = normalise(root, components, findings);
  if (document === undefined) return [];
  const external = await new External(root, options, findings).open();
  const packets = new PacketTypes(root, components, external, findings);
  const children = linkChildren(document.flows, external, findings);
  const linked = document.flows.map((flow) => link(flow, document.info, children, packets, findings));
  validate(linked, findings);
  components.reportUnused();
  packets.checkUnused();
  return linked.map((each) => ({ ...each.plan, unsupported: findUnsupported(each, { tree: root, pointer: "" }, findings) }));
}
