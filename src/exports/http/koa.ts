export { idempotency } from "../../http/adapters/koa.js";
