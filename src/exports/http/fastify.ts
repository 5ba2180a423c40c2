export { idempotency } from "../../http/adapters/fastify.js";
