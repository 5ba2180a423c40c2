import { childOf, type Spot } from "../load/tree.js";
import { type Normalising, spelledIn } from "./dialect.js";
import { Fields } from "./fields.js";
import {
  backendNames,
  busNames,
  type Delivery,
  deliveryModes,
  type Edge,
  type Message,
  orderings,
  protocols,
  type Recovery,
  recoveryStrategies,
  storeNames,
} from "./model.js";
import { messageOf } from "./node.js";
import { durationMs, normaliseRetry, retentionBounds } from "./policy.js";
import { written } from "./written.js";

const countMax = 1_000_000_000;

export function normaliseEdge(spot: Spot, about: Normalising): Edge | undefined {
  const { findings, components } = about;
  const fields = Fields.of(components.resolveName("edges", spot), findings);
  if (fields === undefined) return undefined;
  const [from, to] = [written(fields, "from"), written(fields, "to")];
  for (const name of ["from", "to"]) if (!fields.has(name)) fields.missing(name);
  const when = written(fields, "when");
  const protocol = fields.oneOf("protocol", protocols);
  const description = fields.text("description");
  fields.at("runtimeBindings");
  const onEdge = messageOf(fields.at("packet"), findings);
  spelledIn("A", fields.at("packet"), "an edge's packet", about);
  const delivered = readDelivery(fields.at("delivery"), about);
  if (!fields.has("delivery")) fields.missing("delivery");
  fields.done();
  const message = delivered?.message ?? onEdge;
  if (from === undefined || to === undefined || delivered === undefined) return undefined;
  return {
    from,
    to,
    delivery: delivered.delivery,
    spot: fields.spot,
    ...(description !== undefined && { description }),
    ...(when && { when }),
    ...(protocol && { protocol }),
    ...(message && { message }),
  };
}

function readDelivery(spot: Spot | undefined, about: Normalising): { readonly delivery: Delivery; readonly message?: Message } | undefined {
  const { findings, components } = about;
  const fields = Fields.of(components.resolveName("policies", spot), findings);
  if (fields === undefined) return undefined;
  const mode = fields.oneOf("mode", deliveryModes);
  if (!fields.has("mode")) fields.missing("mode");
  const message = messageOf(fields.at("packet"), findings);
  spelledIn("B", fields.at("packet"), "delivery.packet", about);
  const retry = normaliseRetry(fields.at("retryPolicy"), about);
  const key = written(fields, "idempotencyKey");
  spelledIn("B", fields.at("idempotencyKey"), "delivery.idempotencyKey", about);
  const delivery = known({
    mode: mode ?? "durable",
    spot: fields.spot,
    retry: retry?.policy,
    key,
    keyTtlMs: durationMs(fields, "idempotencyTtl", about, retentionBounds),
    deadLetters: fields.text("deadLetterQueue") ?? retry?.deadLetters,
    timeoutMs: durationMs(fields, "timeout", about),
    priority: fields.integer("priority", 0, 10),
    store: fields.oneOf("store", storeNames),
    backend: fields.oneOf("backend", backendNames),
    ...readBatching(fields, about),
    checkpointEvery: fields.integer("checkpointInterval", 1, countMax),
    inFlightMax: fields.integer("maxInFlight", 1, countMax),
    ordering: fields.oneOf("ordering", orderings),
    recovery: readRecovery(fields.fields("recovery")),
    ...readStream(fields, about),
    queueLengthMax: fields.integer("maxLen", 1, countMax),
  });
  fields.at("runtimeBindings");
  fields.done();
  return { delivery, ...(message && { message }) };
}

type Maybe<T> = { readonly [Name in keyof T]: T[Name] | undefined };

/** Removes undefined fields. */
function known(delivery: Maybe<Delivery>): Delivery {
  return Object.fromEntries(Object.entries(delivery).filter(([, value]) => value !== undefined)) as unknown as Delivery;
}

function readBatching(fields: Fields, about: Normalising): Pick<Maybe<Delivery>, "batchSize" | "batchWaitMs"> {
  const flat = fields.integer("batchSize", 1, countMax);
  spelledIn("B", fields.at("batchSize"), "delivery.batchSize", about);
  const batching = fields.fields("batching");
  if (batching === undefined) return { batchSize: flat, batchWaitMs: undefined };
  spelledIn("A", batching.spot, "delivery.batching", about);
  const enabled = batching.flag("enabled") ?? false;
  const batchSize = batching.integer("batchSize", 1, countMax);
  const batchWaitMs = batching.integer("maxWaitMs", 0, 86_400_000);
  batching.done();
  return enabled ? { batchSize: batchSize ?? flat, batchWaitMs } : { batchSize: flat, batchWaitMs: undefined };
}

function readRecovery(fields: Fields | undefined): Recovery | undefined {
  if (fields === undefined) return undefined;
  const replayFrom = fields.text("replayFrom");
  const strategy = fields.oneOf("strategy", recoveryStrategies);
  fields.done();
  return { ...(replayFrom !== undefined && { replayFrom }), ...(strategy && { strategy }) };
}

/** `stream` is a map in form A (bus, topic, key), and the name of a Redis stream in form B. */
function readStream(
  fields: Fields,
  about: Normalising,
): Pick<Maybe<Delivery>, "bus" | "topic" | "consumerGroup" | "partitionKey" | "queue"> {
  const isMap = childOf(fields.spot, "stream")?.tree.kind === "map";
  const stream = isMap ? fields.fields("stream") : undefined;
  spelledIn("A", stream?.spot, "delivery.stream as a map", about);
  for (const name of ["topic", "consumerGroup", "partitionKey"]) spelledIn("B", fields.at(name), `delivery.${name}`, about);
  const queue = isMap ? undefined : fields.text("stream");
  if (queue !== undefined) spelledIn("B", fields.at("stream"), "delivery.stream as a name", about);
  const found = {
    bus: stream?.oneOf("bus", busNames),
    topic: stream?.text("topic") ?? fields.text("topic"),
    consumerGroup: stream?.text("consumerGroup") ?? fields.text("consumerGroup"),
    partitionKey: (stream && written(stream, "partitionKey")) ?? written(fields, "partitionKey"),
    queue,
  };
  stream?.done();
  return found;
}
