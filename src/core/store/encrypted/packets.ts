import type { DeliveryEntry, NewDeliveryEntry } from "../../packets/delivery-entry.js";
import type {
  Alert,
  DeadLetter,
  NewPacket,
  PacketAct,
  PacketAnswer,
  PacketBackend,
  PacketOperation,
  Placed,
  SendPackets,
} from "../../packets/operation.js";

import type { ExecutionRecord, PacketRecord, PartRecord } from "../../packets/packet.js";
import type { AssociatedData, Cipher } from "../../values/cipher.js";
import { lazily, withMembers } from "../../values/sealed.js";
import { openedLog, sealedLog } from "./runs.js";

/**
 * A PacketBackend that encrypts payloads, histories, values in the history of deliveries, and inputs and outputs of executions. Numbers, queues, keys, states and times are
 * not encrypted. A part is decrypted under its own number, also inside the packet that it was joined to.
 */
export function encryptedPackets(packets: PacketBackend, cipher: Cipher): PacketBackend {
  const memo = new WeakMap<PacketOperation, PacketOperation>();
  /** Encrypts an operation once: after a lost reply it must be sent again unchanged. */
  const sealed = <Op extends PacketOperation>(operation: Op): Op => {
    const known = memo.get(operation) ?? sealedOperation(operation, cipher);
    memo.set(operation, known);
    return known as Op;
  };
  const packet = (record: PacketRecord) => openedPacket(record, cipher);
  const execution = (record: ExecutionRecord) => openedExecution(record, cipher);
  const { sendWithin, prepareKeys } = packets;
  return withMembers<PacketBackend>({
    async flush(operations) {
      const answers = await packets.flush(operations.map(sealed));
      return answers.map((answer) => (answer === "again" ? answer : openedAnswer(answer, cipher)));
    },
    async claim(query) {
      const { claimed, ...rest } = await packets.claim(query);
      return { ...rest, claimed: claimed.map(packet) };
    },
    async packet(no) {
      const found = await packets.packet(no);
      return found && packet(found);
    },
    deadLetters: async (query) => (await packets.deadLetters(query)).map(packet),
    deliveries: async (query) => (await packets.deliveries(query)).map((entry) => openedEntry(entry, cipher)),
    packetsOf: async (no, limit) => (await packets.packetsOf(no, limit)).map(packet),
    async execution(no) {
      const found = await packets.execution(no);
      return found && execution(found);
    },
    executions: async (query) => (await packets.executions(query)).map(execution),
    sendWithin:
      sendWithin && (async (tx: object, send: SendPackets) => openedAnswer(await sendWithin.call(packets, tx, sealed(send)), cipher)),
    prepareKeys: prepareKeys && ((flow: string, collection?: string) => prepareKeys.call(packets, flow, collection)),
    join: (query) => packets.join(query),
    renew: (worker, leaseMs) => packets.renew(worker, leaseMs),
    leave: (worker) => packets.leave(worker),
    reinject: (no, alert) => packets.reinject(no, alert && sealedAlert(alert, cipher)),
    discard: (no) => packets.discard(no),
    async act(action) {
      const answer = await packets.act(sealedAct(action, cipher));
      return answer.kind === "acted" ? { ...answer, entry: openedLog(answer.entry, cipher) } : answer;
    },
    notes: (no, limit) => packets.notes(no, limit),
    counts: () => packets.counts(),
    flowState: (flow) => packets.flowState(flow),
    setFlowState: (flow, state) => packets.setFlowState(flow, state),
    purge: (limit) => packets.purge(limit),
    watch: (changed) => packets.watch(changed),
  });
}

/** The associated data of each text: must be the same for encryption and decryption. */
const dataOf = {
  packet: (no: number, field: "payload" | "history"): AssociatedData => ["packet", no, field],
  execution: (no: number): AssociatedData => ["execution", no, "input"],
  delivery: (no: number, attempt: number): AssociatedData => ["packet", no, "delivery", attempt],
};

function sealedOperation(operation: PacketOperation, cipher: Cipher): PacketOperation {
  const packets = operation.packets.map((packet): NewPacket => {
    const payload = cipher.seal(packet.payload, dataOf.packet(packet.no, "payload"));
    return { ...packet, payload, letter: sealedLetter(packet.letter, cipher) };
  });
  if (operation.verb === "sendPackets") {
    const { execution } = operation;
    const input = execution && cipher.seal(execution.input, dataOf.execution(execution.no));
    return { ...operation, packets, execution: execution && { ...execution, input: input as string } };
  }
  const { no, attempt, to, entry } = operation;
  const outputs = operation.outputs.map((output) => cipher.seal(output, outputData));
  const sealedTo = "history" in to && to.history !== null ? { ...to, history: cipher.seal(to.history, dataOf.packet(no, "history")) } : to;
  return { ...operation, packets, outputs, to: sealedTo, ...(entry && { entry: sealedEntry(entry, no, attempt, cipher) }) };
}

function sealedEntry(entry: NewDeliveryEntry, no: number, attempt: number, cipher: Cipher): NewDeliveryEntry {
  if (entry.details === null) return entry;
  return { ...entry, details: cipher.seal(entry.details, dataOf.delivery(no, entry.memory?.attempt ?? attempt)) };
}

function openedEntry(entry: DeliveryEntry, cipher: Cipher): DeliveryEntry {
  return lazily(entry, { details: (text) => cipher.open(text, dataOf.delivery(entry.packet, entry.attempt)) });
}

/** Returns the same object if there is no alert, which is nearly always: all packets of an edge share it. */
function sealedLetter(letter: DeadLetter | null, cipher: Cipher): DeadLetter | null {
  return letter?.alert === undefined ? letter : { ...letter, alert: sealedAlert(letter.alert, cipher) };
}

/** Encrypted as the payload of the packet that the alert will become. */
function sealedAlert(alert: Alert, cipher: Cipher): Alert {
  return { ...alert, payload: cipher.seal(alert.payload, dataOf.packet(alert.no, "payload")) };
}

function sealedAct({ log, change }: PacketAct, cipher: Cipher): PacketAct {
  const sealed = { log: sealedLog(log, cipher), change };
  if (change.kind !== "retry") return sealed;
  const letters = change.letters.map(({ no, alert }) => ({ no, ...(alert && { alert: sealedAlert(alert, cipher) }) }));
  return { ...sealed, change: { ...change, letters } };
}

/** Without the number of the execution: the worker that settles a packet does not know it. */
const outputData: AssociatedData = ["execution", "output"];

function openedAnswer(answer: PacketAnswer, cipher: Cipher): PacketAnswer {
  if (!("placed" in answer)) return answer;
  const placed = answer.placed.map(
    (each): Placed => (each.kind === "claimed" ? { ...each, packet: openedPacket(each.packet, cipher) } : each),
  );
  return { ...answer, placed };
}

function openedPacket(record: PacketRecord, cipher: Cipher): PacketRecord {
  const open = (no: number) => (text: string) => cipher.open(text, dataOf.packet(no, "payload"));
  const { no, parts } = record;
  const opened =
    parts && Object.fromEntries(Object.entries(parts).map(([port, part]) => [port, lazily<PartRecord>(part, { payload: open(part.no) })]));
  return lazily({ ...record, parts: opened }, { payload: open(no), history: (text) => cipher.open(text, dataOf.packet(no, "history")) });
}

function openedExecution(record: ExecutionRecord, cipher: Cipher): ExecutionRecord {
  const { no, outputs } = record;
  const opened = lazily(record, { input: (text) => cipher.open(text, dataOf.execution(no)) });
  return Object.defineProperty(opened, "outputs", { enumerable: true, get: () => outputs.map((text) => cipher.open(text, outputData)) });
}
