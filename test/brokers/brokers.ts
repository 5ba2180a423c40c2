import { bullmq } from "./bullmq.js";
import { kafka } from "./kafka.js";
import type { Broker } from "./lane.js";
import { nats } from "./nats.js";
import { rabbitmq } from "./rabbitmq.js";
import { redisStreams } from "./redis-streams.js";
import { sqs } from "./sqs.js";

export const brokers: readonly Broker[] = [kafka, nats, rabbitmq, redisStreams("redis"), redisStreams("ioredis"), sqs, bullmq];
