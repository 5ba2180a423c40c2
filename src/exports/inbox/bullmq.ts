export { type BullMqOptions, processor } from "../../inbox/adapters/bullmq.js";
