import { decide } from "../../../core/ledger/decide.js";
import type { Begin, Operation, Renew, Resolve, Settle } from "../../../core/ledger/operation.js";
import type { Verdicted } from "../../../core/store/store.js";
import type { Gate } from "../../../core/work/gate.js";
import type { Item, Table } from "../driver.js";
import { explain } from "../errors.js";
import { absent, heldBy, saysUnknown, unchangedSince } from "./condition.js";
import { itemOf, keyOf, observeRecord, withPast } from "./item.js";
import type { Observations } from "./observed.js";
import { pack } from "./value.js";
import { getItem, putItem, updateLease, updateSettled } from "./write.js";

/** After this many lost races an operation is answered "again", so that other operations go first. */
const racesMax = 5;

export interface Ledger {
  readonly table: Table;
  readonly seen: Observations;
  /** Limits concurrent operations to the driver's number of sockets: more would queue in the driver, which then warns. */
  readonly gate: Gate;
}

/**
 * DynamoDB writes one item at a time, so the operations of a flush are sent concurrently, each atomic and durable by itself. An
 * operation that fails does not affect the others.
 */
export async function flush(ledger: Ledger, operations: readonly Operation[]): Promise<(Verdicted | "again" | Error)[]> {
  return await Promise.all(operations.map((operation) => ledger.gate.run(() => judge(ledger, operation))));
}

async function judge(ledger: Ledger, operation: Operation): Promise<Verdicted | "again" | Error> {
  try {
    return await apply(ledger, operation);
  } catch (error) {
    const meaning = explain(error, `a ${operation.verb}`, "write");
    return meaning instanceof Error ? meaning : new Error(String(meaning));
  }
}

function apply(ledger: Ledger, operation: Operation): Promise<Verdicted | "again"> {
  switch (operation.verb) {
    case "begin":
      return begin(ledger, operation);
    case "settle":
      return settle(ledger, operation);
    case "renew":
      return renew(ledger, operation);
    case "resolve":
      return resolve(ledger, operation);
  }
}

/**
 * First writes on the condition that there is no record: one round trip for a new key, and for a key whose record answers the begin
 * without a write. Otherwise `decide` is applied to the record found, and its change is written on the condition that the record is
 * unchanged.
 */
async function begin({ table, seen }: Ledger, operation: Begin): Promise<Verdicted | "again"> {
  let item: Item | undefined = seen.expects(operation) ? await getItem(table, keyOf(table, operation)) : undefined;
  // Another operation of this process has written it meanwhile: read again. Once is enough, because the version of a new record
  // begins at 1.
  if (item !== undefined && seen.knowsLater(operation, Number(item["rev"]?.N))) item = await getItem(table, keyOf(table, operation));
  for (let races = 0; races < racesMax; races++) {
    const { record, now, monotonic } =
      item === undefined ? { record: undefined, ...seen.moment() } : await observeRecord(table, item, seen);
    const { answer, next, past } = decide(record, operation, now);
    if (answer.kind === "replay") seen.sawSettled(operation);
    if (next === undefined) return { answer, record, now };
    const log = past === undefined ? item?.["past"]?.S : withPast(item, past);
    const condition = record === undefined ? absent : unchangedSince(record);
    const progress = next.progress === null ? undefined : await pack(next.progress);
    const result = await putItem(table, itemOf(table, next, operation.leaseMs, log, progress), condition);
    if (result.written) {
      seen.saw(operation, { rev: next.rev, owner: next.owner, endsAt: monotonic + operation.leaseMs });
      return { answer, record: next, now };
    }
    item = result.found;
  }
  return "again";
}

async function settle(ledger: Ledger, operation: Settle): Promise<Verdicted | "again"> {
  const { table, seen } = ledger;
  const { now } = seen.moment();
  // Not if it is already unknown: a second "unknown" would change its time.
  const condition = heldBy(operation, operation.to.state === "unknown" ? ["running"] : ["running", "unknown"]);
  const result = await updateSettled(table, operation, { now, condition });
  if (!result.written) return await refused(ledger, operation, result.found);
  seen.forget(operation);
  return { answer: { kind: "settled" }, record: undefined, now: 0 };
}

async function renew(ledger: Ledger, operation: Renew): Promise<Verdicted | "again"> {
  const { table, seen } = ledger;
  const moment = seen.moment();
  // A shorter lease does not shorten a longer one, as far as this process knows.
  const leaseMs = Math.max(operation.leaseMs, seen.leaseLeft(operation, operation.owner, moment));
  const leaseUntil = moment.now + leaseMs;
  const result = await updateLease(table, operation, { leaseMs, leaseUntil });
  if (!result.written) return await refused(ledger, operation, result.found);
  seen.saw(operation, { rev: Number(result.item?.["rev"]?.N), owner: operation.owner, endsAt: moment.monotonic + leaseMs });
  return { answer: { kind: "renewed", leaseUntil }, record: undefined, now: moment.now };
}

async function resolve(ledger: Ledger, operation: Resolve): Promise<Verdicted | "again"> {
  const { table, seen } = ledger;
  const { now: asked } = seen.moment();
  const first = await updateSettled(table, operation, { now: asked, condition: saysUnknown(operation) });
  if (first.written) return { answer: { kind: "settled" }, record: undefined, now: asked };
  if (first.found === undefined) return await refused(ledger, operation, undefined);
  // It may be unknown because its lease expired, which this process knows only from its own observation.
  const { record, now } = await observeRecord(table, first.found, seen);
  const { answer, next } = decide(record, operation, now);
  if (next === undefined) return { answer, record, now };
  const second = await updateSettled(table, operation, { now, condition: unchangedSince(record) });
  if (!second.written) return await refused(ledger, operation, second.found);
  seen.forget(operation);
  return { answer, record: undefined, now };
}

/** The condition failed: `decide` says why. */
async function refused({ table, seen }: Ledger, operation: Operation, found: Item | undefined): Promise<Verdicted | "again"> {
  const { record, now } = found === undefined ? { record: undefined, now: 0 } : await observeRecord(table, found, seen);
  const { answer, next } = decide(record, operation, now);
  return next === undefined ? { answer, record, now } : "again";
}
