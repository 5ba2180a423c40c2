export { idempotency } from "../../http/adapters/hono.js";
