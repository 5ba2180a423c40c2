import assert from "node:assert/strict";
import type { PacketBackend, PacketClaims, PacketOperation } from "../../src/core/packets/operation.js";
import type { PacketRecord } from "../../src/core/packets/packet.js";
import type { Backend } from "../../src/core/store/store.js";
import { createMemoryLedger, type MemoryLedger, memoryBackend } from "../../src/stores/memory/backend.js";
import { beginOf, completed } from "../../src/testing/contract/ledger/operations.js";
import { keyScope, nth, Operations, queryOf, type Step } from "./histories.js";

/** A store whose time is given by the test. */
export interface Compared {
  readonly backend: Backend;
  readonly clock: { now(): number; set(at: number): Promise<void>; pass(ms: number): Promise<void> };
  /** Removes everything from the store. */
  clear(): Promise<void>;
}

/**
 * Plays a random history on a store and on the memory store, which defines each verb. Both have the test's clock, so that answers,
 * packets, executions, notes and keys have to be equal to the millisecond.
 */
export function comparing({ backend, clock, clear }: Compared): (steps: readonly Step[]) => Promise<void> {
  const packets = backend.packets as PacketBackend;

  const byNumber = (a: { no: number }, b: { no: number }) => a.no - b.no;
  const sorted = ({ claimed, closed, ended, resting, ...rest }: PacketClaims) => ({
    ...rest,
    claimed: [...claimed].sort(byNumber),
    closed: [...closed].sort(byNumber),
    ended: [...ended].sort(byNumber),
    resting: [...resting].sort(),
  });

  /** The time of a part that this claim has closed may be among the times it saw before: polling too early costs only a poll. */
  function nextOf(theirs: PacketClaims, ours: PacketClaims): number | null {
    const closes = theirs.closed.some(({ to, note }) => to === "closed" || note === "joinClosed");
    const early = theirs.nextAt !== null && theirs.nextAt > theirs.now && theirs.nextAt < (ours.nextAt ?? Number.POSITIVE_INFINITY);
    return closes && early ? ours.nextAt : theirs.nextAt;
  }

  function rowsOf(operation: PacketOperation): number[] {
    const sent = operation.packets.map(({ no }) => no);
    if (operation.verb === "settlePacket") return [operation.no, ...sent];
    return operation.execution === null ? sent : [operation.execution.no, ...sent];
  }

  /**
   * Packets that a claim acknowledges may release others. One of those may be claimed before or after another packet with its key
   * that was due all along, and the first one gets the key.
   */
  function differInTurn(theirs: PacketClaims, ours: PacketClaims): boolean {
    const only = (these: PacketClaims, those: PacketClaims) =>
      these.claimed.filter(({ no }) => !those.claimed.some((other) => other.no === no)).map(({ key }) => key && `${key.scope} ${key.key}`);
    const [mine, yours] = [only(theirs, ours), only(ours, theirs)];
    return ours.closed.length > 0 && mine.length > 0 && !mine.includes(null) && `${mine.sort()}` === `${yours.sort()}`;
  }

  /** A caller other than packets begins or settles a key. */
  async function interfere(ledger: MemoryLedger, { ledger: how, key }: Extract<Step, { ledger: string }>): Promise<void> {
    const id = { scope: keyScope, key };
    const model = memoryBackend(ledger);
    const { owner = "another caller", attempt = 1 } = (await model.read(id))?.record ?? {};
    const to = how === "settle" ? completed(1) : ({ state: "free" } as const);
    const operation =
      how === "begin"
        ? beginOf({ ...id, leaseMs: 700, owner: "another caller" })
        : ({ verb: "settle", ...id, owner, attempt, to, note: null } as const);
    for (const each of [backend, model]) await each.flush([operation]);
  }

  async function expectEqual(model: PacketBackend, nos: readonly number[], executions: readonly number[]): Promise<void> {
    const look = async (of: PacketBackend) => ({
      packets: (await Promise.all(executions.slice(-2).map((no) => of.packetsOf(no, 100)))).map((each) => [...each].sort(byNumber)),
      some: await Promise.all(nos.slice(-2).map((no) => of.packet(no))),
      dead: await of.deadLetters({ limit: 100 }),
      some_dead: await of.deadLetters({ flow: "f", name: "dead", limit: 2, before: { at: clock.now(), no: 20 } }),
      executions: await of.executions({ limit: 100 }),
      page: await of.executions({ flow: "f", status: "running", limit: 2 }),
      // Packets that one claim acknowledges have the same time, and no order among each other.
      notes: (await Promise.all(executions.slice(-3).map((no) => of.notes(no, 1000)))).map((notes) =>
        [...notes].sort((a, b) => a.at - b.at || a.packet - b.packet),
      ),
      history: await Promise.all(executions.slice(-3).map((execution) => of.deliveries({ execution, limit: 100 }))),
      counts: [...(await of.counts())].sort((a, b) => (`${a.flow} ${a.queue}` < `${b.flow} ${b.queue}` ? -1 : 1)),
    });
    assert.deepEqual(await look(packets), await look(model));
  }

  async function expectLedgersEqual(model: Backend): Promise<void> {
    for (const scope of [keyScope, "triggers"]) {
      const listed = async (of: Backend) => (await of.list({ scope, limit: 100 })).map(({ record }) => ({ ...record }));
      assert.deepEqual(await listed(backend), await listed(model));
      for (const { key } of await listed(model)) {
        const log = async (of: Backend) => (await of.attempts({ scope, key, afterAttempt: 0, limit: 100 })).map((entry) => ({ ...entry }));
        assert.deepEqual(await log(backend), await log(model));
      }
    }
  }

  return async function play(steps: readonly Step[]): Promise<void> {
    await clear();
    await clock.set(1_000_000);
    const ledger = createMemoryLedger(() => clock.now());
    const model = memoryBackend(ledger).packets as PacketBackend;
    const { table } = ledger.packets;
    const numbers = new Operations();
    const begun = new Set<number>();
    const both = async <T>(verb: (of: PacketBackend) => Promise<T>, seen: (answer: T) => unknown = (answer) => answer) => {
      const theirs = await verb(packets);
      assert.deepEqual(seen(theirs), seen(await verb(model)));
    };
    const all = (): PacketRecord[] => [...table.packets.values()];
    const worker = (n: number) => nth([...table.workers.keys()], n) ?? 99;
    for (const _ of [1, 2]) await both((of) => of.join({ leaseMs: 10_000 }));
    for (const [i, one] of steps.entries()) {
      await clock.pass(1);
      if ("pass" in one) await clock.pass(one.pass);
      else if ("purge" in one) await both((of) => of.purge(one.purge));
      else if ("renew" in one) await both((of) => of.renew(worker(one.renew), 10_000));
      else if ("leave" in one) await both((of) => of.leave(worker(one.leave)));
      else if ("join" in one) await both((of) => of.join({ leaseMs: one.join }));
      else if ("state" in one) await both((of) => of.setFlowState(one.flow, one.state));
      else if ("ledger" in one) await interfere(ledger, one);
      else if ("claim" in one) {
        const query = queryOf(worker(one.claim.worker), one.claim);
        const [theirs, ours] = [await packets.claim(query), await model.claim(query)];
        // From here on the stores may differ, and both are right.
        if (differInTurn(theirs, ours)) return;
        assert.deepEqual(sorted({ ...theirs, nextAt: nextOf(theirs, ours) }), sorted(ours));
      } else if ("reinject" in one || "discard" in one) {
        const [n, verb] = "reinject" in one ? [one.reinject, "reinject" as const] : [one.discard, "discard" as const];
        const dead = all().filter(({ state }) => state === "dead");
        const no = nth(n % 5 === 0 ? all() : dead, n)?.no ?? 1;
        const alert = n % 2 === 0 ? numbers.alert() : undefined;
        await both((of) => (verb === "reinject" ? of.reinject(no, alert) : of.discard(no)));
      } else {
        const there = {
          owned: all().filter(({ owner }) => owner !== null),
          executions: [...table.executions.keys()],
          workers: [...table.workers.keys()],
        };
        const operations = one.flush.map((asked) => numbers.operation(asked, there)).filter((operation) => operation !== undefined);
        for (const no of there.executions) begun.add(no);
        // One operation per packet: the order of two is not defined.
        const taken = new Set<number>();
        const alone = operations.filter((operation) => {
          const about = rowsOf(operation);
          // A trigger whose execution has ended and was removed is not sent again.
          if (about.some((no) => taken.has(no) || (begun.has(no) && !table.executions.has(no)))) return false;
          for (const no of about) taken.add(no);
          return true;
        });
        if (alone.length > 0) await both((of) => of.flush(alone));
      }
      // Not after every step, because it takes as long as some of them; a difference is found a little later.
      if (i % 6 === 5 || i === steps.length - 1) await expectEqual(model, [...table.packets.keys()], [...table.executions.keys()]);
    }
    await expectLedgersEqual(memoryBackend(ledger));
  };
}
