/** The order in which `format` writes fields: the most important first. Other fields follow in their original order. */
const topOrder = ["flowdsl", "info", "servers", "externalDocs", "asyncapi", "openapi", "flows", "nodes", "edges", "components"];
const infoOrder = ["title", "version", "description", "contact", "license"];
const flowOrder = ["summary", "description", "tags", "entrypoints", "defaults", "nodes", "edges"];
const nodeOrder = [
  "$ref",
  "operationId",
  "kind",
  "title",
  "summary",
  "description",
  "runtime",
  "inputs",
  "outputs",
  "execution",
  "idempotency",
  "settings",
];
const edgeOrder = ["from", "to", "when", "packet", "protocol", "description", "delivery"];
const deliveryOrder = [
  "$ref",
  "mode",
  "packet",
  "idempotencyKey",
  "store",
  "backend",
  "stream",
  "topic",
  "consumerGroup",
  "partitionKey",
  "retryPolicy",
  "deadLetterQueue",
];

const shapes: readonly (readonly [RegExp, readonly string[]])[] = [
  [/^$/, topOrder],
  [/^\/info$/, infoOrder],
  [/^\/flows\/[^/]*$/, flowOrder],
  [/^(\/flows\/[^/]*|\/components)?\/nodes\/[^/]*$/, nodeOrder],
  [/^(\/flows\/[^/]*)?\/edges\/\d+$/, edgeOrder],
  [/^(\/flows\/[^/]*)?\/edges\/\d+\/delivery$/, deliveryOrder],
];

/** The order of the fields of the map at this pointer; undefined if the order is not changed. */
export const orderAt = (pointer: string): readonly string[] | undefined => shapes.find(([shape]) => shape.test(pointer))?.[1];

/** A stable sort: merge keys first; items that are not in `order` follow in their original order. */
export function inOrder<T>(items: readonly T[], nameOf: (item: T) => string, order: readonly string[]): readonly T[] {
  const rank = (item: T) => {
    const name = nameOf(item);
    const at = name === "<<" ? -2 : order.indexOf(name);
    return at === -1 ? order.length : at;
  };
  return items.toSorted((a, b) => rank(a) - rank(b));
}
