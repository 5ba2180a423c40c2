export { idempotency } from "../../http/adapters/express.js";
