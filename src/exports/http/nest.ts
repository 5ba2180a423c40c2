export { IdempotencyInterceptor } from "../../http/adapters/nest.js";
