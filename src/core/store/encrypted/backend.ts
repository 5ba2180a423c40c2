import type { Answer, Operation, Settlement } from "../../ledger/operation.js";
import type { LedgerRecord, RecordId } from "../../ledger/record.js";
import type { Cipher } from "../../values/cipher.js";
import { lazily, withMembers } from "../../values/sealed.js";
import type { Backend, Reading, Verdicted } from "../store.js";
import { encryptedPackets } from "./packets.js";
import { encryptedRuns } from "./runs.js";

/**
 * Wraps a backend so that values are encrypted before they reach it and decrypted when they are read. Keys, scopes, fingerprints,
 * owners, times and notes are not encrypted: the database has to find and compare them.
 */
export function encryptedBackend(backend: Backend, cipher: Cipher): Backend {
  const sealed = sealOnce(cipher);
  const reading = ({ record, now }: Reading): Reading => ({ record: openedRecord(record, cipher), now });
  const { name, place, capabilities, flushesAtOnce, removesByItself, runs, packets } = backend;
  return withMembers<Backend>({
    name,
    place,
    capabilities,
    flushesAtOnce,
    removesByItself,
    async flush(operations) {
      const verdicts = await backend.flush(operations.map(sealed));
      return verdicts.map((verdict, i) =>
        verdict === "again" || verdict instanceof Error ? verdict : openedVerdict(verdict, operations[i] as Operation, cipher),
      );
    },
    async read(id) {
      const found = await backend.read(id);
      return found && reading(found);
    },
    list: async (query) => (await backend.list(query)).map(reading),
    attempts: (query) => backend.attempts(query),
    purge: (query) => backend.purge(query),
    audit: (entries) => backend.audit(entries),
    audited: (id, limit) => backend.audited(id, limit),
    transact: backend.transact?.bind(backend),
    settleWithin: backend.settleWithin && settlesWithin(backend.settleWithin.bind(backend), sealed, cipher),
    standIn: backend.standIn?.bind(backend),
    runs: runs && encryptedRuns(runs, cipher),
    packets: packets && encryptedPackets(packets, cipher),
    close: () => backend.close(),
  });
}

function settlesWithin(
  settleWithin: NonNullable<Backend["settleWithin"]>,
  sealed: <Op extends Operation>(operation: Op) => Op,
  cipher: Cipher,
): NonNullable<Backend["settleWithin"]> {
  return async (tx, settle) => openedAnswer(await settleWithin(tx, sealed(settle)), settle, cipher);
}

/** Encrypts an operation once: after a lost reply it must be sent again unchanged. */
function sealOnce(cipher: Cipher): <Op extends Operation>(operation: Op) => Op {
  const memo = new WeakMap<Operation, Operation>();
  return <Op extends Operation>(operation: Op): Op => {
    let sealed = memo.get(operation);
    if (sealed === undefined) {
      sealed = sealedOperation(operation, cipher);
      memo.set(operation, sealed);
    }
    return sealed as Op;
  };
}

function sealedOperation(operation: Operation, cipher: Cipher): Operation {
  switch (operation.verb) {
    case "begin":
    case "renew": {
      const { progress } = operation;
      return typeof progress === "string" ? { ...operation, progress: cipher.seal(progress, dataOf(operation, "progress")) } : operation;
    }
    case "settle":
      return { ...operation, to: sealedSettlement(operation, operation.to, cipher) };
    case "resolve":
      return { ...operation, to: sealedSettlement(operation, operation.to, cipher) };
  }
}

function sealedSettlement<To extends Settlement>(id: RecordId, to: To, cipher: Cipher): To {
  if (!("outcome" in to) || to.outcome === null) return to;
  return { ...to, outcome: cipher.seal(to.outcome, dataOf(id, "outcome")) };
}

function dataOf({ scope, key }: RecordId, field: "outcome" | "progress"): readonly string[] {
  return ["ledger", scope, key, field];
}

function openedRecord(record: LedgerRecord, cipher: Cipher): LedgerRecord {
  return lazily(record, {
    outcome: (text) => cipher.open(text, dataOf(record, "outcome")),
    progress: (text) => cipher.open(text, dataOf(record, "progress")),
  });
}

function openedVerdict({ answer, record, now }: Verdicted, of: RecordId, cipher: Cipher): Verdicted {
  return { answer: openedAnswer(answer, of, cipher), record: record && openedRecord(record, cipher), now };
}

function openedAnswer(answer: Answer, of: RecordId, cipher: Cipher): Answer {
  if (answer.kind === "started") return lazily(answer, { progress: (text) => cipher.open(text, dataOf(of, "progress")) });
  if (answer.kind === "replay") return { ...answer, record: openedRecord(answer.record, cipher) };
  if (answer.kind === "stale" && answer.record !== undefined) return { ...answer, record: openedRecord(answer.record, cipher) };
  return answer;
}
