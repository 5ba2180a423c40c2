/** Deduplicated message consumption, with a broker or without one. Brokers: `onceflow/inbox/…`. */
export type { DeadLetter, DeadLetterHistory, DeadLetterRef, DeadLettersOptions } from "../inbox/dead-letters.js";
export { PermanentError } from "../inbox/errors.js";
export type { HandleOptions } from "../inbox/handle.js";
export type { Handled, InboxMetrics } from "../inbox/handled.js";
export { createInbox, type Inbox, type OperationInbox } from "../inbox/inbox.js";
export type { Message, MessageContext, MessageHandler } from "../inbox/message.js";
export type { ConsumerOptions, InboxOptions, OperationInboxOptions } from "../inbox/options.js";
export type { RedriveOptions } from "../inbox/redrive.js";
