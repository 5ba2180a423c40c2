import type { Findings } from "../findings/finding.js";
import type { Components } from "../load/components.js";
import { entriesOf, plainOf, type Spot, type Tree } from "../load/tree.js";
import { type Dialect, type Normalising, spelledIn } from "./dialect.js";
import { normaliseEdge } from "./edge.js";
import { Fields } from "./fields.js";
import { readFlowRuntime } from "./flow-runtime.js";
import type { DocumentInfo, Edge, Entrypoint, Flow, FlowDocument, Message, Node } from "./model.js";
import { messageOf, normaliseNode } from "./node.js";
import { normaliseExecution, normaliseRetry } from "./policy.js";
import { snakeCase } from "./snake-case.js";
import { readWebhook } from "./webhook.js";
import { written } from "./written.js";

/** Converts a document of either dialect to one model. Reports what is wrong and continues. */
export function normalise(root: Tree, components: Components, findings: Findings): FlowDocument | undefined {
  const top = Fields.of({ tree: root, pointer: "" }, findings);
  if (top === undefined) return undefined;
  const dialect: Dialect = top.has("flows") || !(top.has("nodes") || top.has("edges")) ? "A" : "B";
  const about: Normalising = { findings, components, dialect };
  readVersion(top, findings);
  const info = readInfo(top, findings);
  for (const name of ["servers", "externalDocs", "asyncapi", "openapi", "components", "runtimeBindings"]) top.at(name);
  const flows = [...namedFlows(top, about), ...topFlow(top, info, about)];
  if (flows.length === 0 && !top.has("flows"))
    findings.add("FLOW_MISSING_FIELD", top.spot, 'the document has neither "flows" nor "nodes"', "add `flows:`, or `nodes:` and `edges:`");
  top.done();
  return { file: root.source.file, info, flows };
}

function readVersion(top: Fields, findings: Findings): void {
  const spot = top.at("flowdsl");
  if (spot === undefined) return top.missing("flowdsl");
  const version = plainOf(spot.tree);
  if (version === "1.0.0" || version === "1.0") return;
  const fix = typeof version === "number" ? `put it in quotes: "1.0"` : `use "1.0.0"`;
  const shown = JSON.stringify(version).slice(0, 40);
  findings.add("FLOW_VERSION", spot, `unknown version ${shown} of the specification; read as 1.0.0`, fix);
}

function readInfo(top: Fields, findings: Findings): DocumentInfo {
  const info = top.fields("info");
  if (info === undefined) {
    if (!top.has("info")) top.missing("info");
    return { title: "untitled", version: "0.0.0" };
  }
  const title = info.required("title") ?? "untitled";
  const version = info.required("version") ?? "0.0.0";
  const description = info.text("description");
  for (const [name, known] of [
    ["contact", ["name", "url", "email"]],
    ["license", ["name", "url"]],
  ] as const) {
    const fields = Fields.of(info.at(name), findings);
    for (const field of known) fields?.text(field);
    fields?.done();
  }
  info.done();
  return { title, version, ...(description !== undefined && { description }) };
}

function namedFlows(top: Fields, about: Normalising): readonly Flow[] {
  const flows = top.fields("flows");
  return flows === undefined ? [] : entriesOf(flows.spot).flatMap(({ name, ...spot }) => normaliseFlow(name, spot, about) ?? []);
}

function topFlow(top: Fields, info: DocumentInfo, about: Normalising): readonly Flow[] {
  const spot = top.at("nodes") ?? top.at("edges");
  if (spot === undefined) return [];
  spelledIn("B", spot, "a graph at the top level", about);
  return [readFlow(snakeCase(info.title), top, about)];
}

function normaliseFlow(id: string, spot: Spot, about: Normalising): Flow | undefined {
  const fields = Fields.of(spot, about.findings);
  if (fields === undefined) return undefined;
  const flow = readFlow(id, fields, about);
  const summary = fields.text("summary");
  const description = fields.text("description");
  const tags = fields.texts("tags");
  fields.at("runtimeBindings");
  fields.done();
  return { ...flow, tags, ...(summary !== undefined && { summary }), ...(description !== undefined && { description }) };
}

/** Reads the fields that a flow of form A and a document of form B share. */
function readFlow(id: string, fields: Fields, about: Normalising): Flow {
  const { findings } = about;
  const nodes = fields.fields("nodes");
  const defaults = fields.fields("defaults");
  const retry = defaults && normaliseRetry(defaults.at("retryPolicy"), about);
  const flow: Flow = {
    id,
    tags: [],
    entrypoints: fields.items("entrypoints").flatMap((spot) => readEntrypoint(spot, about) ?? []),
    nodes:
      nodes === undefined ? [] : entriesOf(nodes.spot).flatMap(({ name, ...spot }): Node | [] => normaliseNode(name, spot, about) ?? []),
    edges: fields.items("edges").flatMap((spot): Edge | [] => normaliseEdge(spot, about) ?? []),
    defaults: { execution: normaliseExecution(defaults?.fields("execution"), about), ...(retry !== undefined && { retry: retry.policy }) },
    runtime: readFlowRuntime(fields, findings),
    spot: fields.spot,
  };
  defaults?.done();
  if (flow.nodes.length === 0) findings.add("FLOW_EMPTY", fields.spot, `flow "${id}" has no nodes`, "add `nodes:`");
  return flow;
}

/** Reads `- node_id` (as in the specification's examples) or `- message: …` (as in its schema). */
function readEntrypoint(spot: Spot, about: Normalising): Entrypoint | undefined {
  const { findings } = about;
  if (spot.tree.kind === "scalar" && typeof spot.tree.value === "string") return { node: spot.tree.value, spot };
  const fields = Fields.of(spot, findings);
  if (fields === undefined) return undefined;
  const message: Message | undefined = messageOf(fields.at("message"), findings);
  const node = fields.text("node");
  const filter = written(fields, "filter");
  // Without its kind a webhook would not be served.
  if (fields.at("kind") === undefined && fields.at("signature") !== undefined) fields.missing("kind", "add `kind: webhook`");
  const isWebhook = fields.oneOf("kind", ["webhook"]) !== undefined || fields.at("signature") !== undefined;
  const webhook = isWebhook ? readWebhook(fields, about) : undefined;
  fields.text("description");
  fields.done();
  if (message === undefined && node === undefined) fields.missing("message");
  const what = { ...(message && { message }), ...(node !== undefined && { node }) };
  return { spot, ...what, ...(filter && { filter }), ...(webhook && { webhook }) };
}
