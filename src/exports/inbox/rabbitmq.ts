export type { ConsumeOptions, Consuming } from "../../inbox/adapters/consuming.js";
export { consume, type RabbitMqOptions } from "../../inbox/adapters/rabbitmq.js";
