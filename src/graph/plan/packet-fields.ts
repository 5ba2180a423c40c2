import type { ObjectSchema } from "@marcbachmann/cel-js";
import type { Findings } from "../findings/finding.js";
import type { Spot } from "../load/tree.js";
import type { JsonSchema } from "../schema/compiler.js";
import type { PacketType, PacketTypes } from "./packets.js";

/** Whether packets have a field: all, some or none of them; `undeclared` and `unspecified`: the schema allows it or says nothing. */
type Presence = "always" | "sometimes" | "never" | "undeclared" | "unspecified";

type SchemaMap = Readonly<Record<string, JsonSchema>>;

const combining = ["allOf", "anyOf", "oneOf", "if", "not"];

function objectOf(schema: JsonSchema): Readonly<Record<string, unknown>> | undefined {
  return typeof schema === "object" && !combining.some((keyword) => keyword in schema) ? schema : undefined;
}

const propertiesOf = (schema: Readonly<Record<string, unknown>>): SchemaMap | undefined => schema["properties"] as SchemaMap | undefined;

interface Field {
  readonly presence: Presence;
  /** The type in the JSON Schema, if there is one. */
  readonly type?: unknown;
}

function fieldAt(path: readonly string[], packet: PacketType, packets: PacketTypes): Field {
  let schema = objectOf(packets.resolved(packet.schema));
  let presence: Presence = "always";
  for (const name of path) {
    const properties = schema && propertiesOf(schema);
    if (schema === undefined || properties === undefined) return { presence: presence === "always" ? "unspecified" : presence };
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (property === undefined) {
      return { presence: schema["additionalProperties"] === false && !("patternProperties" in schema) ? "never" : "undeclared" };
    }
    const required = schema["required"];
    if (!(Array.isArray(required) && required.includes(name))) presence = "sometimes";
    schema = objectOf(packets.resolved(property));
  }
  return { presence, type: schema?.["type"] };
}

/** The type that the packet's schema declares for a field; undefined if it declares none. */
export const typeAt = (path: readonly string[], packet: PacketType, packets: PacketTypes): unknown => fieldAt(path, packet, packets).type;

interface ReportContext {
  readonly packet: PacketType | undefined;
  readonly packets: PacketTypes;
  readonly findings: Findings;
  /** Whether a packet without the field cannot be delivered. */
  readonly mustBeThere: boolean;
}

/** Reports fields that the packet's schema does not declare or, if `mustBeThere`, does not require. */
export function reportFields(
  paths: readonly (readonly string[])[],
  spot: Spot,
  { packet, packets, findings, mustBeThere }: ReportContext,
): void {
  if (packet === undefined) return;
  for (const path of paths) {
    const { presence } = fieldAt(path, packet, packets);
    const field = path.join(".");
    const fix = `make it a required property of ${packet.name}, or use another field`;
    if (presence === "undeclared" || presence === "never")
      findings.add("FLOW_UNDECLARED_FIELD", spot, `the schema of ${packet.name} has no "${field}"`, fix);
    else if (presence === "sometimes" && mustBeThere)
      findings.add(
        "FLOW_UNDECLARED_FIELD",
        spot,
        `the schema of ${packet.name} does not require "${field}"; a packet without it becomes a dead letter`,
        fix,
      );
  }
}

/** Reports fields whose type cannot be part of a key: no packet would get a key. */
export function reportFieldTypes(
  paths: readonly (readonly string[])[],
  spot: Spot,
  { packet, packets, findings }: Omit<ReportContext, "mustBeThere">,
): void {
  if (packet === undefined) return;
  for (const path of paths) {
    const { type } = fieldAt(path, packet, packets);
    if (type === "object" || type === "array" || type === "null")
      findings.add(
        "FLOW_EXPRESSION_TYPE",
        spot,
        `"${path.join(".")}" of ${packet.name} has type ${type}; a key can contain only strings, numbers and booleans`,
        "use one of its fields, or another field",
      );
  }
}

const celTypes: Readonly<Record<string, string>> = {
  string: "string",
  number: "double",
  integer: "double",
  boolean: "bool",
};
const depthMax = 5;
const fieldsMax = 200;

/** The packet's fields with their types in CEL. A field without exactly one type is dynamic. */
export function celFields(schema: JsonSchema, packets: PacketTypes, depth = 0): ObjectSchema | undefined {
  const object = objectOf(packets.resolved(schema));
  const properties = object && propertiesOf(object);
  if (properties === undefined || depth > depthMax) return undefined;
  const names = Object.keys(properties);
  if (names.length > fieldsMax || names.some((name) => !/^[A-Za-z_]\w*$/.test(name))) return undefined;
  return Object.fromEntries(names.map((name) => [name, celType(properties[name] ?? true, packets, depth)]));
}

function celType(schema: JsonSchema, packets: PacketTypes, depth: number): string | ObjectSchema {
  const object = objectOf(packets.resolved(schema));
  const type = object?.["type"];
  if (object === undefined || typeof type !== "string") return "dyn";
  if (type === "object") return celFields(schema, packets, depth + 1) ?? "dyn";
  if (type === "array") return `list<${itemType(object["items"] as JsonSchema | undefined, packets)}>`;
  return celTypes[type] ?? "dyn";
}

/** Items of an array that are not scalars are dynamic. */
function itemType(items: JsonSchema | undefined, packets: PacketTypes): string {
  const type = items === undefined || Array.isArray(items) ? undefined : objectOf(packets.resolved(items))?.["type"];
  return (typeof type === "string" ? celTypes[type] : undefined) ?? "dyn";
}
