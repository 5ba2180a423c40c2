import type { NodeType } from "../node/node-type.js";
import { collect } from "./data/collect.js";
import { delay } from "./data/delay.js";
import { filter } from "./data/filter.js";
import { split } from "./data/split.js";
import { transform } from "./data/transform.js";
import { type EmailOptions, email } from "./email/email.js";
import { httpRequest } from "./http/http-request.js";
import type { HttpNodeOptions } from "./http/options.js";
import { webhookOut } from "./http/webhook-out.js";

/** Options of `readyMadeNodes`: those of `httpRequest`, `webhookOut` and `email`. */
export interface ReadyMadeOptions extends HttpNodeOptions, EmailOptions {}

/**
 * All ready-made nodes, by operationId. Spread it into `nodes`, before your own nodes. Throws InvalidInputError for wrong options.
 *
 * @example
 * createRuntime({ store, documents, nodes: { ...readyMadeNodes({ secrets: { apiToken } }), charge_payment: charge } });
 */
export function readyMadeNodes({ smtp, ...http }: ReadyMadeOptions = {}): Readonly<Record<string, NodeType>> {
  const mail = email(smtp === undefined ? {} : { smtp });
  const types = [delay(), transform(), filter(), split(), collect(), httpRequest(http), webhookOut(http), mail];
  return Object.fromEntries(types.map((type) => [type.operationId, type]));
}
