export type { ConsumeOptions, Consuming } from "../../inbox/adapters/consuming.js";
export { consume, type NatsOptions } from "../../inbox/adapters/nats.js";
