import { InvalidInputError } from "../../core/errors/errors.js";
import { key } from "../../core/ledger/key.js";
import { once } from "../../core/ledger/once.js";
import { encodeLater, renamed } from "../../core/values/codec.js";
import { addKind } from "../../core/values/kinds.js";
import { bytesOf, isResponse, type KeptBody } from "../../core/values/web-kinds.js";
import { currentStep } from "../define/context.js";
import { ContextError } from "../define/errors.js";

/** Journaled form of a request. Its body was read when it arrived. */
export interface RequestParts {
  readonly method: string;
  readonly url: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: KeptBody | null;
  /** Key of the response that the sender waits for; null if the sender already has its response. */
  readonly answer: string | null;
}

/** A request to a webhook with `respondWith: "manual"`: the sender waits until a step responds. */
export interface RequestWithResponse extends Request {
  /**
   * Sends the response. Only the first response counts, also if the step is retried. Throws ContextError outside of a step,
   * and InvalidInputError if the response cannot be sent.
   */
  respondWith(response: Response): Promise<void>;
}

/** Responses are stored in the ledger: the first one wins, repeated deliveries get the same one, and old ones are purged. */
export const answerScope = "onceflow:webhook";
const answerRetentionMs = 3_600_000;
const answerBytesMax = 1024 * 1024;

/** A request to a webhook. It keeps the parts it was made from, so that it can be journaled and passed to any number of steps. */
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
    const kept = await encodeResponse("response", response, answerBytesMax);
    const named = { scope: answerScope, key: key.of(answer), retentionMs: answerRetentionMs };
    await once(step.execution.store, named, async () => kept);
  }
}

/** Encodes a response with its body. Throws InvalidInputError if the body is longer than `bytesMax`. */
export async function encodeResponse(field: string, response: unknown, bytesMax: number): Promise<string> {
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
