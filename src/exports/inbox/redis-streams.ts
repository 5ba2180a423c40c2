export type { ConsumeOptions, Consuming } from "../../inbox/adapters/consuming.js";
export { consume, type RedisStreamsOptions } from "../../inbox/adapters/redis-streams.js";
