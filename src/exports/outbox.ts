/** Transactional outbox: messages are committed together with the business rows, and published later by any process. */
export type { HistoryEntry } from "../core/packets/history.js";
export type { OperatorOptions, OperatorResult } from "../core/packets/operator.js";
export type { OutboxDeadLetter, OutboxDeadLettersOptions } from "../outbox/dead-letters.js";
export type { NewMessage, OutboxMessage } from "../outbox/message.js";
export type { OutboxMetrics } from "../outbox/metrics.js";
export type { OutboxOptions, RelayOptions } from "../outbox/options.js";
export { createOutbox, type Outbox, type OutboxPending, type OutboxRelay } from "../outbox/outbox.js";
export type { PublishContext, Publisher } from "../outbox/publish.js";
