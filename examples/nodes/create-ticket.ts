import { BaseNode, type NodeInput, NodeOutput } from "onceflow/graph";

export interface Ticket extends Readonly<Record<string, unknown>> {
  readonly id: string;
}

/** A ticket system that knows no keys, and a table of ours that does. */
export interface TicketSystem {
  create(ticket: { readonly subject: string; readonly body: string; readonly priority: unknown }): Promise<Ticket>;
}
export interface TicketTable {
  byKey(key: string): Promise<Ticket | undefined>;
  keep(key: string, ticket: Ticket): Promise<void>;
}

/**
 * Opens a ticket where the other side cannot deduplicate: our own table is asked first. Between `create` and `keep` a death
 * leaves a ticket that nobody here knows of: that window stays, and only the other side could close it.
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
