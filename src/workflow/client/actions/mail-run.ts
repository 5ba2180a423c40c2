import { hasEnded, type MailKind } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { randomText } from "../../../core/values/random-text.js";
import { ActionRefusedError, RunNotFoundError } from "../../define/errors.js";
import { type ActionOptions, type ActionResult, firstAnswer, perform } from "./action.js";

/** An action that the owner of a run carries out: it is sent as mail, with its entry in the operator log. */
export interface MailedAction {
  readonly action: "cancel" | "terminate" | "pause" | "resume" | "wake" | "deliver";
  readonly kind: MailKind;
  readonly payload: string | null;
  /** The hook that the mail is for, and its token. */
  readonly hook?: { readonly about: string; readonly token: string };
  /** Deduplicates the mail in addition to the action id. */
  readonly key?: string | undefined;
  /** From this time on the run can be ended without its code. */
  readonly stopAfterMs?: number;
  /** What the caller gets in addition to the state, now or when it sends the action again. */
  readonly answer?: object;
  readonly options: ActionOptions;
}

export type Mailed = ActionResult & { readonly state: "sent" | "ended" };

/** An action of which the log has more than its state. */
type MailedWith<Answer extends object> = MailedAction & { readonly answer: Answer };

/** Sends the mail once, also if a reply is lost. "ended": the run had ended, and nothing was sent. Throws RunNotFoundError and StaleActionError. */
export async function mailRun<Answer extends object>(store: Store, run: string, mailed: MailedWith<Answer>): Promise<Mailed & Answer>;
export async function mailRun(store: Store, run: string, mailed: MailedAction): Promise<Mailed>;
export async function mailRun(store: Store, run: string, mailed: MailedAction): Promise<Mailed> {
  const { action, options } = mailed;
  return await firstAnswer<{ state: Mailed["state"] }>({ store, action, run, options }, () => send(store, run, mailed));
}

async function send(
  store: Store,
  run: string,
  { action, kind, payload, hook, key, stopAfterMs, answer, options }: MailedAction,
): Promise<Mailed> {
  if (options.dryRun) {
    const found = await store.runs.read(run);
    if (found === undefined) throw new RunNotFoundError(run);
    const state = hasEnded(found.status) ? "ended" : "sent";
    const nothing = { kind: "send", mail: { kind, about: null, payload, key: action } } as const;
    return await perform({ store, action, run, expect: {}, change: nothing, answer: { ...answer, state }, options });
  }
  const mail = { kind, about: hook?.about ?? null, payload, key: key ?? `${action} ${options.actionId ?? randomText(24)}` };
  const change = { kind: "send", mail, ...(hook && { token: hook.token }), ...(stopAfterMs === undefined ? {} : { stopAfterMs }) } as const;
  try {
    return await perform({ store, action, run, expect: {}, change, answer: { ...answer, state: "sent" }, options });
  } catch (error) {
    if (!(error instanceof ActionRefusedError) || error.because !== "ended") throw error;
    return { ...answer, runId: run, actionId: options.actionId ?? "", repeated: false, dryRun: false, state: "ended" };
  }
}
