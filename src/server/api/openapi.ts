import type { Field } from "./fields.js";
import { type ApiProblemCode, statusOf, titleOf } from "./problems.js";
import type { Route } from "./route.js";
import { schemas } from "./schemas.js";

/** Problems that every route can have. */
const always: readonly ApiProblemCode[] = ["INVALID_INPUT", "UNAUTHORIZED", "ROLE_MISSING", "INTERNAL", "STORE_UNREACHABLE"];
const ofBodies: readonly ApiProblemCode[] = ["BODY_MALFORMED", "BODY_TOO_LONG", "MEDIA_TYPE_REFUSED"];

/** The OpenAPI document: made from the definitions that check the requests. */
export function apiDocument(routes: readonly Route[], path: string): object {
  const paths = new Map<string, Record<string, object>>();
  for (const route of routes) paths.set(route.path, { ...paths.get(route.path), [route.method.toLowerCase()]: operationOf(route) });
  return {
    openapi: "3.1.0",
    info: { title: "Onceflow store", version: "1", summary: "Keys, runs, hooks, dead letters, flows and live events of a store." },
    servers: [{ url: path === "" ? "/" : path }],
    paths: Object.fromEntries(paths),
    components: { schemas },
  };
}

function operationOf(route: Route): object {
  const { id, about, role, needsValues, method, fields } = route;
  const input = method === "GET" ? { parameters: parametersOf(fields) } : { requestBody: bodyOf(fields) };
  return {
    operationId: id,
    summary: about,
    description: `Needs the role \`${role}\`${needsValues ? " and the role `values`" : ""}.`,
    ...input,
    responses: responsesOf(route),
  };
}

function parametersOf(fields: Route["fields"]): object[] {
  return Object.entries(fields).map(([name, { about, schema, required }]) => ({ name, in: "query", description: about, required, schema }));
}

function bodyOf(fields: Route["fields"]): object {
  const described = ({ schema, about }: Field): object => ({ ...schema, description: about });
  const schema = {
    type: "object",
    properties: Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, described(field)])),
    required: Object.entries(fields).flatMap(([name, { required }]) => (required ? [name] : [])),
    additionalProperties: false,
  };
  return { required: true, content: { "application/json": { schema } } };
}

function responsesOf({ answer, problems = [], method }: Route): object {
  const content =
    answer === "events"
      ? { "text/event-stream": { schema: { type: "string" } } }
      : { "application/json": { schema: { $ref: `#/components/schemas/${answer}` } } };
  const byStatus = new Map<number, string[]>();
  for (const code of [...always, ...(method === "POST" ? ofBodies : []), ...problems]) {
    const lines = byStatus.get(statusOf(code)) ?? [];
    byStatus.set(statusOf(code), [...lines, `${code}: ${titleOf(code)}`]);
  }
  const refused = [...byStatus].map(([status, lines]) => [
    status,
    { description: lines.join(". "), content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } } },
  ]);
  return { 200: { description: "The answer", content }, ...Object.fromEntries(refused) };
}
