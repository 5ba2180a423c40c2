import { BaseNode, type NodeInput, NodeOutput } from "onceflow/graph";

export interface Ticket extends Readonly<Record<string, unknown>> {
  readonly id: string;
}

/** A ticket system without idempotency keys, and a table of ours that stores keys. */
export interface TicketSystem {
  create(ticket: { readonly subject: string; readonly body: string; readonly priority: unknown }): Promise<Ticket>;
}
export interface TicketTable {
  byKey(key: string): Promise<Ticket | undefined>;
  keep(key: string, ticket: Ticket): Promise<void>;
}

/**
 * Opens a ticket in a system that cannot deduplicate: looks the key up in our own table first. A crash between `create` and `keep`
 * leaves a ticket that the table does not know. Only the ticket system could close that window.
 */
export class CreateTicketNode extends BaseNode {
  readonly operationId = "create_support_ticket";
  readonly #tickets: TicketSystem;
  readonly #table: TicketTable;

  constructor(tickets: TicketSystem, table: TicketTable) {
    super();
    this.#tickets = tickets;
    this.#table = table;
  }

  async handle(input: NodeInput): Promise<NodeOutput> {
    const payload = input.packet("in");
    const key = input.context.idempotencyKey ?? payload.getString("email.messageId");
    const existing = await this.#table.byKey(key);
    if (existing) return new NodeOutput().send("out", existing);
    const ticket = await this.#tickets.create({
      subject: payload.getString("email.subject", ""),
      body: payload.getString("email.body", ""),
      priority: payload.get("classification"),
    });
    await this.#table.keep(key, ticket);
    return new NodeOutput().send("out", ticket);
  }
}
