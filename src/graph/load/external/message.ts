import { childOf, entriesOf, type Spot, type Tree } from "../tree.js";
import type { Target } from "./external.js";

const hopsMax = 20;
const jsonMedia = /^application\/(?:[\w.-]+\+)?json\b/i;
const jsonSchemaFormat = /^application\/(?:schema\+|vnd\.aai\.asyncapi|vnd\.oai\.openapi)/i;

const textOf = (tree: Tree | undefined): string | undefined =>
  tree?.kind === "scalar" && typeof tree.value === "string" ? tree.value : undefined;

/**
 * The schema of what a reference to an AsyncAPI or OpenAPI document leads to: of a message, its payload; of a request body or a
 * response, its JSON content; of a schema, the schema itself. Messages, request bodies and responses may be references themselves.
 */
export function schemaOfMessage(spot: Spot, find: (ref: string, from: Spot) => Target): Target {
  let at = spot;
  for (let hops = 0; hops < hopsMax; hops += 1) {
    const payload = childOf(at, "payload");
    if (payload !== undefined) return schemaOfPayload(payload, at);
    const content = childOf(at, "content");
    if (content?.tree.kind === "map") return schemaOfContent(content);
    if (at.pointer.endsWith("/message") && childOf(at, "oneOf") !== undefined)
      return { problem: "is a choice of several messages", fix: "refer to one of the messages in its oneOf" };
    const ref = childOf(at, "$ref");
    const text = textOf(ref?.tree);
    if (ref === undefined || text === undefined) return notASchema(at) ?? { spot };
    const target = find(text, ref);
    if (target === "reported" || "problem" in target) return target;
    at = target.spot;
  }
  return { problem: "is circular", fix: "replace one of the references with its target" };
}

const messages = /^\/(?:components\/messages\/[^/]+|channels\/[^/]+\/(?:messages\/[^/]+|(?:publish|subscribe)\/message(?:\/oneOf\/\d+)?))$/;
const bodies = /^\/(?:components\/(?:requestBodies|responses)\/[^/]+|paths\/[^/]+\/[^/]+\/(?:requestBody|responses\/[^/]+))$/;

/** A message without a payload or the whole document, read as a schema, would allow every packet. */
function notASchema(at: Spot): Target | undefined {
  if (messages.test(at.pointer)) return { problem: "is a message without a payload", fix: "add a payload, or refer to a schema" };
  if (bodies.test(at.pointer)) return { problem: "has no JSON content with a schema", fix: "refer to a schema" };
  const isDocument = ["asyncapi", "openapi", "swagger"].some((name) => childOf(at, name)?.tree.kind === "scalar");
  if (at.pointer !== "" || !isDocument) return undefined;
  return { problem: "is a whole document", fix: "refer to a message or a schema in it: …#/components/…" };
}

/** AsyncAPI 2 has `schemaFormat` beside the payload, AsyncAPI 3 `{ schemaFormat, schema }` in it. */
function schemaOfPayload(payload: Spot, message: Spot): Target {
  const inside = childOf(payload, "schemaFormat");
  const format = textOf((inside ?? childOf(message, "schemaFormat"))?.tree);
  if (format !== undefined && !jsonSchemaFormat.test(format))
    return { problem: `has the schema format "${format.slice(0, 100)}"`, fix: "use a message whose payload is a JSON Schema" };
  const schema = inside === undefined ? undefined : childOf(payload, "schema");
  return { spot: schema ?? payload };
}

function schemaOfContent(content: Spot): Target {
  const json = entriesOf(content).find(({ name }) => jsonMedia.test(name));
  const schema = json && childOf(json, "schema");
  return schema === undefined ? { problem: "has no JSON content with a schema", fix: "refer to a schema" } : { spot: schema };
}
