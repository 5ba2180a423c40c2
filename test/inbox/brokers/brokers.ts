import type { Broker, BrokerName } from "./broker-queue.js";

/** Loaded on demand, so that a test does not load the drivers of all brokers. */
export const brokers = {
  bullmq: async () => (await import("./bullmq.js")).bullmq,
  ioRedis: async () => (await import("./redis-streams.js")).redisStreams("ioredis"),
  kafka: async () => (await import("./kafka.js")).kafka,
  nats: async () => (await import("./nats.js")).nats,
  nodeRedis: async () => (await import("./redis-streams.js")).redisStreams("redis"),
  rabbitmq: async () => (await import("./rabbitmq.js")).rabbitmq,
  sqs: async () => (await import("./sqs.js")).sqs,
} satisfies Record<BrokerName, () => Promise<Broker>>;
