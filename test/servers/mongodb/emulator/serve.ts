import type { Server } from "node:net";
import { BSON } from "mongodb";
import { type Command, commandsOf, type Deployment, written } from "./commands.js";
import { CommandError, Locked, type Transaction } from "./engine.js";
import { type Doc, serveWire } from "./wire.js";

interface Session {
  number: number;
  transaction: Transaction | undefined;
  outcome: "open" | "committed" | "aborted";
}

/** MongoDB's own fail point, as far as the tests use it: the next `times` of these commands fail with a code, or are executed and report a write concern error. */
interface FailPoint {
  times: number;
  /** How many commands it has affected. */
  count: number;
  readonly failCommands: readonly string[];
  readonly errorCode?: number;
  readonly errorLabels?: readonly string[];
  readonly writeConcernError?: Doc;
}

/** As in MongoDB, a transaction that stays open for so long is aborted, unless the server parameter says otherwise. */
const transactionSDefault = 60;

/** Finds the session, its transaction and the command, waits for locks, and reports errors as MongoDB does. */
export function serve(deployment: Deployment): Promise<Server> {
  const { engine } = deployment;
  const commands = commandsOf(deployment);
  const sessions = new Map<string, Session>();
  /** The last write of each session outside a transaction: when it is sent again under its number, it is only answered. */
  const done = new Map<string, { readonly number: number; readonly answer: Doc }>();
  let failing: FailPoint | undefined;
  /** Databases whose time is given by a test, not by the clock. */
  const times = new Map<string, Date>();
  let transactionLifetimeLimitSeconds = transactionSDefault;

  function failPoint(command: Command): Doc {
    const { mode, data } = command as Command & { mode: "off" | { times: number }; data?: Omit<FailPoint, "times" | "count"> };
    const count = failing?.count ?? 0;
    failing = mode === "off" || data === undefined ? undefined : { ...data, times: mode.times, count: 0 };
    return { count };
  }

  /** Throws the configured error, or returns what to add to the answer of a command that is executed nevertheless. */
  function fail(name: string): Doc {
    if (failing === undefined || failing.times === 0 || !failing.failCommands.some((one) => one.toLowerCase() === name)) return {};
    failing.times -= 1;
    failing.count += 1;
    const { errorCode, errorLabels, writeConcernError } = failing;
    if (errorCode !== undefined) throw new CommandError(errorCode, "FailPoint", "injected failure", errorLabels);
    return writeConcernError === undefined ? {} : { writeConcernError, ...(errorLabels ? { errorLabels } : {}) };
  }

  function within(command: Command): Transaction | undefined {
    if (command["autocommit"] !== false) return undefined;
    if (!deployment.replicaSet)
      throw new CommandError(20, "IllegalOperation", "Transaction numbers are only allowed on a replica set member or mongos");
    const id = BSON.EJSON.stringify(command["lsid"] as Doc);
    const number = Number(command["txnNumber"]);
    const before = sessions.get(id);
    if (command["startTransaction"] !== true) {
      if (before?.number === number) return before.transaction;
      throw noSuchTransaction(number);
    }
    if (before?.transaction) engine.abort(before.transaction);
    const session: Session = { number, transaction: engine.begin(), outcome: "open" };
    sessions.set(id, session);
    setTimeout(() => session.transaction && abort(session), transactionLifetimeLimitSeconds * 1000).unref();
    return session.transaction;
  }

  function abort(session: Session): void {
    if (session.transaction) engine.abort(session.transaction);
    session.transaction = undefined;
    session.outcome = "aborted";
  }

  function end(command: Command, verb: "committed" | "aborted"): Doc {
    const session = sessions.get(BSON.EJSON.stringify(command["lsid"] as Doc));
    const number = Number(command["txnNumber"]);
    if (session?.number !== number) throw noSuchTransaction(number);
    // The reply to the first request was lost, and the driver sends it again.
    if (session.outcome === verb) return {};
    if (session.transaction === undefined) throw noSuchTransaction(number);
    if (verb === "aborted") abort(session);
    else engine.commit(session.transaction);
    session.transaction = undefined;
    session.outcome = verb;
    return {};
  }

  async function run(command: Command): Promise<Doc> {
    const name = Object.keys(command)[0]?.toLowerCase() ?? "";
    if (name === "configurefailpoint") return failPoint(command);
    if (name === "setparameter") {
      const { setParameter: _, transactionLifetimeLimitSeconds: limit, $db, lsid, ...others } = command as Doc;
      const unknown = Object.keys(others).filter((each) => !each.startsWith("$"));
      if (unknown.length > 0 || typeof limit !== "number") throw new CommandError(72, "InvalidOptions", `no such parameter: ${unknown[0]}`);
      transactionLifetimeLimitSeconds = limit;
      return {};
    }
    if (name === "setemulatedtime") {
      times.set(command.$db, new Date(Number(command["setEmulatedTime"])));
      return {};
    }
    const failed = fail(name);
    if (name === "committransaction") return { ...end(command, "committed"), ...failed };
    if (name === "aborttransaction") return end(command, "aborted");
    const handler = commands[name];
    if (handler === undefined) throw new CommandError(59, "CommandNotFound", `no such command: '${name}'`);
    const transaction = within(command);
    const before = doneBefore(command);
    if (before !== undefined) return { ...before, ...failed };
    for (;;) {
      try {
        if (command["autocommit"] === false && transaction === undefined) throw noSuchTransaction(Number(command["txnNumber"]));
        deployment.language.instant = times.get(command.$db) ?? new Date();
        const answer = await handler(command, transaction);
        if (transaction !== undefined && answer["writeErrors"] !== undefined) abortOf(command);
        remember(command, answer);
        return { ...answer, ...failed };
      } catch (error) {
        if (error instanceof Locked) {
          await error.until;
          continue;
        }
        if (transaction !== undefined) abortOf(command);
        throw error;
      }
    }
  }

  function doneBefore(command: Command): Doc | undefined {
    if (command["txnNumber"] === undefined || command["autocommit"] === false) return undefined;
    const last = done.get(BSON.EJSON.stringify(command["lsid"] as Doc));
    return last?.number === Number(command["txnNumber"]) ? last.answer : undefined;
  }

  /** As MongoDB does it: keeps the whole document that a findAndModify has written, and answers a retry with it, without the projection. */
  function remember(command: Command, answer: Doc): void {
    if (command["txnNumber"] === undefined || command["autocommit"] === false) return;
    const image = (answer as { [written]?: Doc })[written];
    if (Object.keys(command)[0]?.toLowerCase() === "findandmodify" && image === undefined) return;
    const kept = image === undefined ? answer : { ...answer, value: image };
    done.set(BSON.EJSON.stringify(command["lsid"] as Doc), { number: Number(command["txnNumber"]), answer: kept });
  }

  function abortOf(command: Command): void {
    const session = sessions.get(BSON.EJSON.stringify(command["lsid"] as Doc));
    if (session) abort(session);
  }

  return serveWire(deployment.port, async (command) => {
    try {
      return { ...(await run(command as Command)), ok: 1 };
    } catch (error) {
      const said = error instanceof CommandError ? error : new CommandError(2, "BadValue", String(error));
      const labels = said.labels.length > 0 ? { errorLabels: said.labels } : {};
      return { ok: 0, errmsg: said.message, code: said.code, codeName: said.codeName, ...labels, ...said.facts };
    }
  });
}

function noSuchTransaction(number: number): CommandError {
  const message = `Given transaction number ${number} does not match any in-progress transactions`;
  return new CommandError(251, "NoSuchTransaction", message, ["TransientTransactionError"]);
}
