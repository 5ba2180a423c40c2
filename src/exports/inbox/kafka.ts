export type { ConsumeOptions, Consuming } from "../../inbox/adapters/consuming.js";
export { consume, type KafkaOptions } from "../../inbox/adapters/kafka.js";
