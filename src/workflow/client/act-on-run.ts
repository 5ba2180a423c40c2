import { NotKnownError } from "../../core/errors/errors.js";
import { newOwner } from "../../core/ledger/owner.js";
import type { MailKind } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { RunNotFoundError } from "../define/errors.js";
import { sendSafely } from "./send-mail.js";

/** An action of the program on a run: mail, with its entry in the operator log. */
interface RunAction {
  readonly action: "cancel" | "terminate" | "pause" | "resume";
  readonly kind: MailKind;
  readonly payload: string | null;
  readonly reason?: string | undefined;
  /** From this time on the run can be ended without its code. */
  readonly stopAfterMs?: number;
}

/** Sends the mail once, also if a reply is lost. Throws RunNotFoundError. */
export async function actOnRun(
  store: Store,
  id: string,
  { action, kind, payload, reason, stopAfterMs }: RunAction,
): Promise<"sent" | "ended"> {
  const actionId = newOwner();
  const answer = await sendSafely(store, {
    verb: "act",
    id,
    log: { id: actionId, actor: "program", action, subject: id, reason: reason ?? null, detail: payload },
    expect: {},
    change: { kind: "send", mail: { kind, about: null, payload, key: actionId }, ...(stopAfterMs === undefined ? {} : { stopAfterMs }) },
  });
  if (answer.kind === "absent") throw new RunNotFoundError(id);
  if (answer.kind === "acted") return "sent";
  if (answer.kind === "ended") return "ended";
  throw new NotKnownError(`the store answered "${answer.kind}" to the action "${action}" on run "${id}"`);
}
