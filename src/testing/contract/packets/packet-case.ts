import assert from "node:assert/strict";
import { NotKnownError, UnreachableError } from "../../../core/errors/errors.js";
import type { PacketAnswer, PacketOperation } from "../../../core/packets/operation.js";
import type { Store } from "../../../core/store/store.js";
import { type ContractCase, contractCase, type Skip } from "../contract-case.js";
import type { Scene } from "../ledger/scene.js";
import { executionMembers, Hand, packetMembers, submit } from "./packet-operations.js";

const needsPackets: Skip = ({ name, capabilities }) =>
  capabilities.packets ? undefined : `${name} does not have the capability "packets"`;

/** A case for stores with packets. */
export function packetCase(name: string, play: (scene: Scene) => Promise<void>, skip: Skip = () => undefined): ContractCase {
  return contractCase(name, play, (target) => needsPackets(target) ?? skip(target));
}

/** A hand (worker) on the scene's shared store. Most cases need only one. */
export function handOf(scene: Scene): Promise<Hand> {
  return scene.store().then((store) => Hand.on(store));
}

/** The time of the store's clock: an empty claim returns it, too. */
export async function timeOf(hand: Hand): Promise<number> {
  const { now, claimed } = await hand.claimFrom("an unused queue");
  assert.equal(claimed.length, 0);
  return now;
}

/** Waits until the store's clock has reached `at`. */
export async function reach(scene: Scene, hand: Hand, at: number): Promise<void> {
  await scene.until(`the store's time is ${at}`, async () => {
    const now = await timeOf(hand);
    if (now < at) await scene.pass(at - now);
    return now >= at;
  });
}

/** Everything that a store returns about packets. */
export async function picture(store: Store): Promise<unknown> {
  const executions = await store.packets.executions({ limit: 1000 });
  const dead = await store.packets.deadLetters({ limit: 1000 });
  const counts = await store.packets.counts();
  const notes: unknown[] = [];
  const packets: unknown[] = [];
  for (const { no } of executions) {
    notes.push(await store.packets.notes(no, 1000));
    packets.push((await store.packets.packetsOf(no, 1000)).map(packetMembers).sort((a, b) => a.no - b.no));
  }
  const inOrder = [...counts].sort((a, b) => (a.flow + a.queue < b.flow + b.queue ? -1 : 1));
  return { executions: executions.map(executionMembers), dead: dead.map(packetMembers), counts: inOrder, notes, packets };
}

/** Returns the answer, and asserts that nothing was written. */
export async function unchanged<T>(store: Store, ask: () => Promise<T>): Promise<T> {
  const before = JSON.stringify(await picture(store));
  const answer = await ask();
  assert.equal(JSON.stringify(await picture(store)), before, `a request answered ${JSON.stringify(answer)} changes nothing`);
  return answer;
}

/** Sends the operation again, unchanged, until it is answered, as a caller does whose reply was lost. */
export async function sendSafely(scene: Scene, store: Store, operation: PacketOperation): Promise<PacketAnswer> {
  for (;;) {
    try {
      return await submit(store, operation);
    } catch (error) {
      if (!(error instanceof UnreachableError || error instanceof NotKnownError)) throw error;
      await scene.pass(5);
    }
  }
}
