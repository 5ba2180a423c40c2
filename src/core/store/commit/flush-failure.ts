import { NotKnownError, UnreachableError } from "../../errors/errors.js";

/** Whether there was no connection, or it broke: then no member of the flush is the cause, and sending them one by one would not help. */
export function isConnectionLoss(error: unknown): boolean {
  return (error instanceof UnreachableError || error instanceof NotKnownError) && error.answered !== true;
}
