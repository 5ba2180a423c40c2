import { BaseNode, NodeError, type NodeInput, NodeOutput } from "onceflow/graph";

/** An SMS provider with idempotency keys. */
export interface SmsProvider {
  send(sms: {
    readonly to: string;
    readonly body: string;
    readonly idempotencyKey: string | undefined;
  }): Promise<{ sid: string; status: string }>;
}

/**
 * Sends an SMS. The runtime has checked the edge's key before: a packet whose key is completed is not delivered. The key is passed
 * to the provider nevertheless: if the process dies after the SMS and before the commit, only the provider knows about it.
 */
export class SmsAlertNode extends BaseNode {
  readonly operationId = "send_sms_alert";
  readonly #provider: SmsProvider;

  constructor(provider: SmsProvider) {
    super();
    this.#provider = provider;
  }

  async handle(input: NodeInput): Promise<NodeOutput> {
    const payload = input.packet("in");
    const { idempotencyKey } = input.context;
    const sms = { to: payload.getString("phoneNumber", ""), body: payload.getString("message", ""), idempotencyKey };
    try {
      const { sid, status } = await this.#provider.send(sms);
      return new NodeOutput().send("out", { sid, status });
    } catch (error) {
      if ((error as { status?: number }).status === 429) throw new NodeError("RATE_LIMITED", "the SMS provider asks to wait", error);
      throw new NodeError("TEMPORARY", "the SMS was not sent", error);
    }
  }
}
