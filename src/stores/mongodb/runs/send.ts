import type { RunAnswer, Send } from "../../../core/runs/operation.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { absent, add, asItIs, choose, isMissing } from "../ledger/expressions.js";
import { requireRoom } from "../ledger/settle.js";
import { isOver, mailId } from "./document.js";
import { findRun } from "./load.js";

/** Inside a transaction: between reading the run's counter and writing it nobody else can send. */
export async function sendMail(
  collections: Collections,
  { to, kind, about, payload, key }: Omit<Send, "verb">,
  options: SessionOption,
): Promise<RunAnswer> {
  const hook = "token" in to ? await collections.hooks.findOne({ _id: to.token }, options) : undefined;
  if (hook === null) return { kind: "absent" };
  const run = await findRun(collections, "run" in to ? to.run : (hook?.run ?? ""), options);
  if (run === undefined || (hook !== undefined && hook.no !== run.no)) return { kind: "absent" };
  const { _id: id, no, now } = run;
  // Also when the run has ended since: the reply was lost, but the mail had arrived.
  const arrived = await collections.mail.findOne({ _id: mailId(no, key) }, options);
  if (arrived !== null) return { kind: "sent", run: id, duplicate: true };
  if (isOver(run)) return { kind: "ended", run: id };
  requireRoom(payload);
  const seq = run.mail + 1;
  await collections.mail.insertOne({ _id: mailId(no, key), run: no, seq, kind, about: hook?.about ?? about, payload, at: now }, options);
  // Who owns a run hears of its mail with the next renewal; nobody's run becomes due for every worker, and keeps its place if it was.
  const due = choose(isMissing("$wakeAt"), now, { $min: ["$wakeAt", now] });
  const wakeAt = choose(isMissing("$owner"), due, asItIs("$wakeAt"));
  const whileOwned = (field: string) => choose(isMissing("$owner"), absent, asItIs(field));
  const avoided = { avoid: whileOwned("$avoid"), avoidUntil: whileOwned("$avoidUntil") };
  await collections.runs.updateOne({ _id: id, no }, [{ $set: { mail: add("$mail", 1), wakeAt, ...avoided } }], options);
  return { kind: "sent", run: id, duplicate: false };
}
