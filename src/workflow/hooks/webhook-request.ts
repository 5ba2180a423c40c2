import { InvalidInputError } from "../../core/errors/errors.js";
import { key } from "../../core/ledger/key.js";
import { once } from "../../core/ledger/once.js";
import { encodeLater, renamed } from "../../core/values/codec.js";
import { addKind } from "../../core/values/kinds.js";
import { bytesOf, isResponse, type KeptBody } from "../../core/values/web-kinds.js";
import { currentStep } from "../define/context.js";
import { ContextError } from "../define/errors.js";

/** A request as it is journaled: its body was read when it came in. */
export interface RequestParts {
  readonly method: string;
  readonly url: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: KeptBody | null;
  /** Names the answer that its sender waits for; null when it was answered already. */
  readonly answer: string | null;
}

/** Who sent it waits until a step answers it. */
export interface RequestWithResponse extends Request {
  /** Only in a step. The first answer counts, also when the step is retried. */
  respondWith(response: Response): Promise<void>;
}

/** Answers live in the ledger: there the first one wins, later callers get it, and old ones are removed. */
export const answerScope = "onceflow:webhook";
const answerRetentionMs = 3_600_000;
const answerBytesMax = 1024 * 1024;

/** What comes to a webhook. It keeps what it was made of: so it can be journaled and handed to steps as often as needed. */
export class WebhookRequest extends Request implements RequestWithResponse {
  readonly #parts: RequestParts;

  constructor(parts: RequestParts) {
    const { url, method, headers, body } = parts;
    super(url, { method, headers: headers.map(([name, value]) => [name, value]), body: bytesOf(body) });
    this.#parts = parts;
  }

  static partsOf(request: WebhookRequest): RequestParts {
    return request.#parts;
  }

  override readonly clone = (): WebhookRequest => new WebhookRequest(this.#parts);

  async respondWith(response: Response): Promise<void> {
    const step = currentStep();
    if (step === undefined) throw new ContextError("request.respondWith()", "a step");
    const { answer } = this.#parts;
    if (answer === null) throw new ContextError("request.respondWith()", 'a webhook made with respondWith: "manual"');
    const kept = await keptResponse("response", response, answerBytesMax);
    const named = { scope: answerScope, key: key.of(answer), retentionMs: answerRetentionMs };
    await once(step.execution.store, named, async () => kept);
  }
}

/** With its body, read up to the bound. */
export async function keptResponse(field: string, response: unknown, bytesMax: number): Promise<string> {
  if (!isResponse(response) || response.status < 200) throw new InvalidInputError(field, "must be a Response that can be sent");
  try {
    return await encodeLater(response, bytesMax);
  } catch (error) {
    throw renamed(field, error);
  }
}

addKind<WebhookRequest, RequestParts>({
  name: "WebhookRequest",
  holds: (value) => value instanceof WebhookRequest,
  keep: (request) => WebhookRequest.partsOf(request),
  make: (parts) => new WebhookRequest(parts),
});
