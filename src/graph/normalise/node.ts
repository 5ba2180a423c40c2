import type { Findings } from "../findings/finding.js";
import { childOf, entriesOf, itemsOf, type Spot } from "../load/tree.js";
import { reportPlaceholders } from "../plan/alert-text.js";
import { type Normalising, spelledIn } from "./dialect.js";
import { Fields } from "./fields.js";
import {
  type Alert,
  type Message,
  type Node,
  type NodeIdempotency,
  type NodeKind,
  type NodeRuntime,
  nodeKinds,
  type Port,
  protocols,
  storeNames,
  type Written,
} from "./model.js";
import { readTokenEnv, reportUrl } from "./node-address.js";
import { normaliseExecution } from "./policy.js";
import { snakeCase } from "./snake-case.js";
import { written } from "./written.js";

export function normaliseNode(id: string, spot: Spot, about: Normalising): Node | undefined {
  const { findings, components } = about;
  const fields = Fields.of(components.resolve("nodes", spot), findings);
  if (fields === undefined) return undefined;
  const operationId = fields.required("operationId");
  if (operationId !== undefined && !/^[a-z][a-z0-9_]*$/.test(operationId))
    findings.add(
      "FLOW_OPERATION_ID",
      fields.at("operationId") ?? spot,
      `operationId "${operationId}" is not snake_case`,
      `try "${snakeCase(operationId)}"`,
    );
  const kind = fields.oneOf("kind", nodeKinds);
  if (!fields.has("kind")) findings.add("FLOW_NO_KIND", fields.spot, `node "${id}" has no kind; action is assumed`, "add `kind:`");
  const runtime = readRuntime(fields.fields("runtime"), about);
  const idempotency = readIdempotency(fields.fields("idempotency"), about);
  const alert = readAlert(childOf(fields.spot, "x-alerts"), findings);
  const settings = fields.plain("settings");
  const workflowRef = readWorkflowRef(fields, kind, about);
  fields.at("runtimeBindings");
  const node: Node = {
    id,
    operationId: operationId ?? id,
    kind: kind ?? "action",
    inputs: readPorts(fields.at("inputs"), "inputs", about),
    outputs: readPorts(fields.at("outputs"), "outputs", about),
    execution: normaliseExecution(fields.fields("execution"), about),
    settings: fields.fields("settings") === undefined ? {} : (settings as Record<string, unknown>),
    extensions: fields.extensions(),
    spot: fields.spot,
    ...optionalTexts(fields),
    ...(runtime && { runtime }),
    ...(idempotency && { idempotency }),
    ...(alert && { alert }),
    ...(workflowRef && { workflowRef }),
  };
  fields.done();
  return node;
}

/** In the specification a setting, `settings.workflowRef`; also accepted as a field of the node. */
function readWorkflowRef(fields: Fields, kind: NodeKind | undefined, { findings }: Normalising): Written | undefined {
  const own = written(fields, "workflowRef");
  const setting = kind === "subworkflow" ? Fields.of(fields.at("settings"), findings) : undefined;
  const ref = own ?? (setting && written(setting, "workflowRef"));
  if (own === undefined || kind === "subworkflow") return ref;
  findings.add(
    "FLOW_FIELD_NOT_USED",
    own.spot,
    `only a node of kind subworkflow has a "workflowRef"`,
    "set `kind: subworkflow`, or remove it",
  );
  return undefined;
}

function optionalTexts(fields: Fields): Partial<Record<"title" | "summary" | "description", string>> {
  const names = ["title", "summary", "description"] as const;
  return Object.fromEntries(names.flatMap((name) => (fields.text(name) === undefined ? [] : [[name, fields.text(name)]])));
}

type Side = "inputs" | "outputs";

/** Form A has a list of named ports, form B a map. */
function readPorts(spot: Spot | undefined, side: Side, about: Normalising): readonly Port[] {
  if (spot === undefined) return [];
  if (spot.tree.kind === "list" && spot.tree.items.length > 0) spelledIn("A", spot, "a list of ports", about);
  if (spot.tree.kind === "map") spelledIn("B", spot, "a map of ports", about);
  if (spot.tree.kind === "scalar") Fields.of(spot, about.findings);
  const ports = spot.tree.kind === "map" ? entriesOf(spot) : itemsOf(spot).map((item) => ({ ...item, name: undefined }));
  const names = new Set<string>();
  return ports.flatMap(({ name, tree, pointer }) => {
    const port = readPort(name, { tree, pointer }, side, about);
    if (port === undefined) return [];
    if (names.has(port.name))
      about.findings.add("FLOW_DUPLICATE_ID", port.spot, `two ports are named "${port.name}"`, "give each port a different name");
    names.add(port.name);
    return [port];
  });
}

function readPort(name: string | undefined, spot: Spot, side: Side, { findings }: Normalising): Port | undefined {
  const fields = Fields.of(spot, findings);
  if (fields === undefined) return undefined;
  const message = messageOf(fields.at("message"), findings) ?? messageOf(fields.at("packet"), findings);
  const description = fields.text("description");
  const given = name ?? fields.text("name") ?? message?.ref?.split("/").at(-1) ?? (side === "inputs" ? "in" : "out");
  const required = side === "inputs" ? requiredOf(fields, findings) : undefined;
  fields.done();
  const texts = { ...(description !== undefined && { description }), ...(required !== undefined && { required }) };
  return { name: given, spot, ...(message && { message }), ...texts };
}

/** `required: false`, as in the node manifests of the specification. */
function requiredOf(fields: Fields, findings: Findings): boolean | undefined {
  const optional = fields.has("optional") ? fields.at("optional") : undefined;
  if (optional !== undefined) findings.add("FLOW_UNKNOWN_FIELD", optional, 'unknown field "optional"', "use `required: false`");
  return fields.flag("required");
}

/** `Order`, `{ $ref: … }`, `{ schema: … }`, or `{ schema: { $ref: … } }` */
export function messageOf(spot: Spot | undefined, findings: Findings): Message | undefined {
  if (spot === undefined) return undefined;
  if (spot.tree.kind === "scalar" && typeof spot.tree.value === "string") return { ref: spot.tree.value, spot };
  const fields = Fields.of(spot, findings);
  if (fields === undefined) return undefined;
  const schema = fields.at("schema");
  if (fields.has("$ref")) {
    const ref = fields.text("$ref");
    fields.done();
    return ref === undefined ? undefined : { ref, spot: fields.at("$ref") ?? spot };
  }
  fields.done();
  if (schema !== undefined) return schema.tree.kind === "map" && childOf(schema, "$ref") ? messageOf(schema, findings) : { spot: schema };
  fields.missing("$ref");
  return undefined;
}

function readRuntime(fields: Fields | undefined, { findings }: Normalising): NodeRuntime | undefined {
  if (fields === undefined) return undefined;
  const language = fields.oneOf("language", ["go", "python", "nodejs"]);
  const texts = { handler: fields.text("handler"), image: fields.text("image"), version: fields.text("version") };
  const supports = fields.texts("supports");
  for (const protocol of supports)
    if (!(protocols as readonly string[]).includes(protocol))
      findings.add(
        "FLOW_BAD_VALUE",
        fields.at("supports") ?? fields.spot,
        `"${protocol}" is not allowed; allowed values: ${protocols.join(", ")}`,
        "choose one of them",
      );
  const http = readHttp(fields.fields("http"), findings);
  const grpc = readGrpc(fields.fields("grpc"), findings);
  const connections = ["nats", "redis", "zeromq", "rabbitmq", "websocket"].flatMap((name) =>
    fields.at(name) ? [[name, fields.plain(name)]] : [],
  );
  fields.done();
  return {
    supports: supports.filter((protocol) => (protocols as readonly string[]).includes(protocol)) as NodeRuntime["supports"],
    connections: Object.fromEntries(connections),
    ...(language && { language }),
    ...(Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== undefined)) as Partial<
      Pick<NodeRuntime, "handler" | "image" | "version">
    >),
    ...(http && { http }),
    ...(grpc && { grpc }),
  };
}

function readHttp(fields: Fields | undefined, findings: Findings): NodeRuntime["http"] {
  if (fields === undefined) return undefined;
  const url = fields.required("url");
  const tokenEnv = readTokenEnv(fields, findings);
  fields.done();
  if (url === undefined) return undefined;
  reportUrl(url, fields.at("url") ?? fields.spot, findings, ["http:", "https:"]);
  return { url, ...(tokenEnv !== undefined && { tokenEnv }) };
}

function readGrpc(fields: Fields | undefined, findings: Findings): NodeRuntime["grpc"] {
  if (fields === undefined) return undefined;
  const host = fields.text("host");
  const port = fields.integer("port", 1, 65_535);
  const streaming = fields.flag("streaming");
  const streamsMax = fields.integer("maxConcurrentStreams", 1, 1_000_000);
  const tls = fields.flag("tls");
  const tokenEnv = readTokenEnv(fields, findings);
  fields.done();
  if (host !== undefined) reportUrl(`grpc://${host}:${port ?? 1}`, fields.at("host") ?? fields.spot, findings, ["grpc:"]);
  return {
    ...(host !== undefined && { host }),
    ...(port !== undefined && { port }),
    ...(streaming !== undefined && { streaming }),
    ...(streamsMax !== undefined && { streamsMax }),
    ...(tls !== undefined && { tls }),
    ...(tokenEnv !== undefined && { tokenEnv }),
  };
}

const ttlSecondsMax = 10 * 366 * 86_400;

function readIdempotency(fields: Fields | undefined, about: Normalising): NodeIdempotency | undefined {
  if (fields === undefined) return undefined;
  spelledIn("A", fields.spot, "a node's idempotency", about);
  const enabled = fields.flag("enabled") ?? true;
  const key = written(fields, "keyExpression");
  const ttlSeconds = fields.integer("ttlSeconds", 1, ttlSecondsMax);
  const store = fields.oneOf("store", storeNames);
  fields.done();
  if (!enabled) return undefined;
  if (key === undefined) {
    if (!fields.has("keyExpression")) fields.missing("keyExpression");
    return undefined;
  }
  return { key, ...(ttlSeconds !== undefined && { ttlMs: ttlSeconds * 1000 }), ...(store && { store }) };
}

function readAlert(spot: Spot | undefined, findings: Findings): Alert | undefined {
  const alert = Fields.of(Fields.of(spot, findings)?.at("onDeadLetter"), findings);
  // Another channel than a webhook is not an error of the document: it is reported as unsupported.
  const other = alert !== undefined && entriesOf(alert.spot).some(({ name }) => name !== "message" && name !== "minSeverity");
  const webhook = other ? alert?.text("webhook") : alert?.required("webhook");
  const message = alert?.text("message");
  const text = alert && written(alert, "message");
  if (text !== undefined) reportPlaceholders(text, findings);
  return webhook === undefined ? undefined : { webhook, ...(message !== undefined && { message }) };
}
