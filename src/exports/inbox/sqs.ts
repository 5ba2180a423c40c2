export type { ConsumeOptions, Consuming } from "../../inbox/adapters/consuming.js";
export { consume, type SqsOptions } from "../../inbox/adapters/sqs.js";
