import type { PacketAnswer, PacketClaimQuery, PacketClaims, Woken } from "../../../core/packets/operation.js";
import type { PacketRecord } from "../../../core/packets/packet.js";
import { PacketLease } from "../../../core/packets/worker/packet-lease.js";
import { WorkerRegistration } from "../../../core/packets/worker/registration.js";
import { PacketSuspects } from "../../../core/packets/worker/suspects.js";
import type { Store } from "../../../core/store/store.js";
import { PagedMap } from "../../../core/work/paged-map.js";
import { NodeError } from "../../node/node-error.js";
import { leaseLost } from "../delivery/attempt.js";
import { Batches, type BatchMember } from "../delivery/batches.js";
import { Checkpoints } from "../delivery/checkpoint.js";
import { type CommitPorts, retryCommit, settleOperation } from "../delivery/commit.js";
import { Delivery } from "../delivery/delivery.js";
import type { Payload } from "../delivery/payload.js";
import { type RunPorts, runNodes } from "../delivery/run-nodes.js";
import { none, type Settling, settleReleased } from "../delivery/settling.js";
import { FlowStates } from "../flows/flow-states.js";
import { type Route, waitsForChild } from "../flows/route.js";
import type { RouteTable } from "../flows/route-table.js";
import { startsChild } from "../flows/subworkflow.js";
import { HistoryRecorder } from "../history/recorder.js";
import { MemoryCommits } from "../memory-edges/memory-commits.js";
import { marksOf } from "../memory-edges/memory-mark.js";
import { MemoryQueues } from "../memory-edges/memory-queues.js";
import type { ResolvedOptions } from "../runtime-options.js";
import type { EventReporter } from "../views/event-reporter.js";
import { Admission } from "./admission.js";
import { Capacity } from "./capacity.js";
import { ClaimLoop } from "./claim-loop.js";
import { IdleWatch } from "./idle-watch.js";
import { Ownership } from "./ownership.js";
import { PacketSender } from "./packet-sender.js";

/** A packet that two workers in a row had when they died: it is delivered alone (core/work/in-hand.ts). */
interface Suspect {
  readonly route: Route;
  readonly packet: PacketRecord;
}

/**
 * Delivers packets from the store to their nodes. Any number of workers share one store. The methods below are in the order of a
 * packet's path:
 *
 * 1. `start`: register with the store, keep the lease, poll.
 * 2. `#receive`: a poll (`claim-loop.ts`) has claimed due packets, and each takes a slot. Suspects are set aside, and are
 *    delivered alone (`#deliverAlone`).
 * 3. `#dispatch`: an edge with batches collects its packets, any other packet is delivered now.
 * 4. `#deliver`: run the nodes (`delivery/run-nodes.ts`), commit the end of the packet and what it sends (`delivery/commit.ts`).
 *    Packets of `checkpoint` edges wait for each other, and commit together.
 * 5. `#sendOn`: packets that the commit has claimed for this worker go to step 3 at once (`packet-sender.ts`).
 * 6. `#release`: free the slot; poll if packets were left behind.
 * 7. `stop`: stop claiming, wait for deliveries, release the other packets.
 *
 * If the process dies before the commit of step 4, the packet is in the store under this worker's lease. When the lease
 * expires, another worker claims the packet and delivers it again.
 */
export class PacketWorker {
  readonly capacity: Capacity;
  readonly registration: WorkerRegistration;
  readonly states: FlowStates;
  readonly sender: PacketSender;
  readonly memoryQueues: MemoryQueues;
  readonly #store: Store;
  readonly #routes: RouteTable;
  readonly #options: ResolvedOptions;
  readonly #reporter: EventReporter;
  readonly #lease: PacketLease;
  readonly #ownership: Ownership;
  readonly #claimLoop: ClaimLoop;
  readonly #admission: Admission;
  readonly #suspects: PacketSuspects<Suspect>;
  readonly #batches: Batches;
  readonly #checkpoints: Checkpoints;
  readonly #idleWatch: IdleWatch;
  readonly #history: HistoryRecorder;
  readonly #ports: RunPorts & CommitPorts;
  readonly #deliveries = new PagedMap<Delivery>();
  #deliveryCount = 0;
  #stopped = false;

  constructor(store: Store, routes: RouteTable, options: ResolvedOptions, reporter: EventReporter) {
    this.#store = store;
    this.#routes = routes;
    this.#options = options;
    this.#reporter = reporter;
    this.capacity = new Capacity(options.concurrency);
    this.registration = new WorkerRegistration(store, options.leaseMs);
    this.#admission = new Admission(store, () => this.#resume());
    this.#history = new HistoryRecorder(options.history);
    this.#checkpoints = new Checkpoints(store.clock);
    this.#idleWatch = new IdleWatch(() => !this.#claimLoop.isPending && this.#hasNoWork());
    const deliverWaiting = () => this.memoryQueues.deliverWaiting();
    this.states = new FlowStates({ store, unclaimed: routes.unclaimedFlows, deliverWaiting });
    this.#lease = this.#makeLease();
    this.#ownership = new Ownership(store, this.registration, this.#lease);
    this.sender = this.#makeSender();
    this.memoryQueues = this.#makeMemoryQueues();
    this.#batches = this.#makeBatches();
    this.#suspects = this.#makeSuspects();
    this.#claimLoop = this.#makeClaimLoop();
    this.#ports = this.#makeDeliveryPorts();
  }

  // ——— 1. start

  async start(): Promise<void> {
    await this.registration.join();
    await this.states.refresh();
    this.#lease.start();
    if (this.#options.work) this.#claimLoop.start();
  }

  /** Packets may be due in the store. */
  poll(): void {
    this.#claimLoop.wake();
  }

  // ——— 2. receive what a poll has claimed

  #receive({ queues }: PacketClaimQuery, { now, claimed, closed, ended, resting }: PacketClaims): void {
    this.#ownership.noteStoreTime(now);
    this.states.update(new Set(queues.map(({ flow }) => flow)), resting);
    this.#receiveWoken(closed);
    this.#reporter.reportEnded(ended);
    const suspects: Suspect[] = [];
    for (const packet of claimed) {
      const route = this.#routes.get(packet.flow, packet.queue) as Route;
      this.sender.forget(packet.no);
      this.capacity.takeAnyway(route);
      if (packet.crashes > 0 && mayKillProcess(route) && this.#suspects.has({ packet })) suspects.push({ route, packet });
      else this.#dispatch(route, packet);
    }
    // Suspects come last: packets of the same claim end first, and do not die with the process if a suspect kills it.
    for (const suspect of suspects) this.#suspects.add(suspect);
  }

  /** Packets that no longer wait for a key, a lane or a join. */
  #receiveWoken(woken: readonly Woken[]): void {
    for (const each of woken) {
      if (each.to !== "due") this.#reporter.reportWoken(this.#routes.get(each.flow, each.queue), each);
      // A dead letter may have put its alert into the store.
      if (each.to === "due" || each.to === "dead") this.poll();
    }
  }

  /** A suspect has ended: deliver what has waited. */
  #resume(): void {
    this.memoryQueues.deliverWaiting();
    this.poll();
  }

  #ownsNothing(): boolean {
    const waiting = this.#batches.waiting || this.memoryQueues.length > 0 || this.#suspects.size > 0;
    return this.#deliveries.size === 0 && this.sender.size === 0 && !waiting;
  }

  // ——— 3. dispatch

  #dispatch(route: Route, packet: PacketRecord, payload?: Payload): void {
    if (!this.#admission.enter(route)) {
      void this.#admission.untilOpen()?.then(() => this.#dispatch(route, packet, payload));
      return;
    }
    if (route.delivery.batch.size <= 1) void this.#begin(route, packet, payload);
    else this.#batches.add(route, packet);
  }

  /** Resolves when the delivery has ended. */
  #deliverAlone({ route, packet }: Suspect): Promise<void> {
    this.#admission.enterAlone(route);
    return route.delivery.batch.size <= 1 ? this.#begin(route, packet) : this.#batches.deliver(route, [packet]);
  }

  /** `payload`: as this process sent it. `member`: the packet shares a call with others. Resolves when the delivery has ended. */
  #begin(route: Route, packet: PacketRecord, payload?: Payload, member?: BatchMember): Promise<void> {
    this.#deliveryCount += 1;
    const delivery = new Delivery(this.#ownership, this.#deliveryCount, route, packet, payload, member?.call);
    this.#deliveries.set(delivery.no, delivery);
    if (member !== undefined) return member.turn.then(() => this.#deliver(delivery));
    return this.capacity.isGated(route) ? this.capacity.pass(route, () => this.#deliver(delivery)) : this.#deliver(delivery);
  }

  // ——— 4. deliver and settle

  async #deliver(delivery: Delivery): Promise<void> {
    const { route, packet } = delivery;
    const stopped = this.#stopped;
    if (!stopped) this.#reporter.reportDelivering(route, packet);
    try {
      const running = stopped ? settleReleased(delivery) : runNodes(delivery, this.#ports);
      let settling = this.#history.recorded(delivery, running instanceof Promise ? await running : running);
      const turn = settling.to.kind === "done" ? this.#checkpoints.waitForTurn(route) : undefined;
      if (turn !== undefined) await turn;
      let answer: PacketAnswer;
      try {
        answer = await this.#store.commit({ packet: settleOperation(delivery, settling) });
      } catch (error) {
        [settling, answer] = await retryCommit(delivery, settling, error, this.#ports);
      }
      this.#sendOn(delivery, settling, answer);
    } catch (error) {
      // The store is closed, or refuses even a dead letter: the packet stays under this worker's lease until that expires.
      this.#reporter.reportTrouble(error);
    } finally {
      this.#release(delivery);
    }
  }

  #shareSlot(delivery: Delivery): void {
    delivery.hasReturned = true;
    this.capacity.share(delivery.route);
  }

  // ——— 5. send on

  #sendOn(delivery: Delivery, { to, failure, packets, ephemeral, marks = none }: Settling, answer: PacketAnswer): void {
    // Stale: the lease was lost, and another worker has the packet. Nothing of this delivery was written.
    if (answer.kind !== "packetSettled") return this.sender.cancelSend(packets);
    const { route, packet, trace } = delivery;
    if (ephemeral.length > 0)
      this.memoryQueues.send(ephemeral, { execution: packet.execution, trace }, marksOf(marks, packet.owner as number));
    this.#reporter.reportSettled(route, packet, { to, failure, ms: delivery.ms });
    this.sender.receiveAnswer(answer, packets);
    this.#receiveWoken(answer.woken);
    if (to.kind === "retry" || to.kind === "release") this.#claimLoop.wakeAfter(to.delayMs ?? 0);
  }

  /** Whether the commit that sends a packet of this route may claim it for this worker, if a slot is free. */
  #mayClaimOnSend({ node, flow }: Route): boolean {
    if (node.work === undefined || !this.#options.work || this.#stopped || !this.states.isActive(flow.id)) return false;
    return !this.#claimLoop.isInDoubt && this.#admission.isOpen;
  }

  // ——— 6. release

  #release(delivery: Delivery): void {
    const { route } = delivery;
    this.#deliveries.delete(delivery.no);
    this.#admission.leave(route);
    if (delivery.hasReturned) this.capacity.unshare(route);
    this.capacity.release(route);
    this.#checkpoints.flushIfLast(route);
    this.memoryQueues.deliverWaiting();
    this.#offerSlot(route);
  }

  /** Releases a slot that no delivery has used. */
  #releaseSlot(route: Route): void {
    this.capacity.release(route);
    this.#offerSlot(route);
  }

  /** Poll again: a poll that ran while this slot was taken saw no capacity. */
  #offerSlot(route: Route): void {
    this.#claimLoop.offerSlot(route);
    this.#idleWatch.check();
  }

  // ——— 7. stop

  /** Resolves when this process has no packet, and a poll has found none due. */
  idle(): Promise<void> {
    this.poll();
    return this.#idleWatch.wait();
  }

  /** Stops claiming, waits at most `graceMs` for deliveries, and releases packets that were not begun. */
  async stop(graceMs: number): Promise<void> {
    this.#stopped = true;
    await this.#claimLoop.stop();
    this.#batches.flush();
    this.#checkpoints.flush();
    if (!this.#hasNoWork()) await this.#idleWatch.waitAtMost(this.#store.clock, graceMs);
    this.#lease.stop();
    this.#abortDeliveries(new NodeError("TEMPORARY", "this process is stopping"));
    // Deliveries that still run have begun: their packets stay under the lease, and the attempt counts when it expires.
    if (this.#deliveries.size === 0 && !this.#store.closed) await this.registration.leave();
    this.#idleWatch.check();
  }

  /** This worker has no packet, and sends none with a claim, which it would then own. */
  #hasNoWork(): boolean {
    return this.capacity.taken === 0 && this.#deliveries.size === 0 && this.memoryQueues.length === 0;
  }

  #abortDeliveries(reason: NodeError): void {
    for (const delivery of this.#deliveries.values()) delivery.abort(reason);
  }

  // ——— the parts, each with the ports that it declares

  #makeLease(): PacketLease {
    return new PacketLease(this.#store, this.registration, {
      leaseMs: this.#options.leaseMs,
      background: !this.#options.work,
      beforeRenewal: () => this.states.refresh(),
      // Marks of packets in memory carry this worker's number: it must not change while there are any.
      isIdle: () => this.capacity.taken === 0 && this.memoryQueues.length === 0,
      onLost: () => {
        this.#reporter.reportLeaseLost();
        this.#abortDeliveries(leaseLost());
      },
      onRejoined: () => this.poll(),
      reportTrouble: (error) => this.#reporter.reportTrouble(error),
    });
  }

  #makeClaimLoop(): ClaimLoop {
    const { concurrency, pollMs } = this.#options;
    return new ClaimLoop({
      ...{ store: this.#store, registration: this.registration, lease: this.#lease, capacity: this.capacity, concurrency, pollMs },
      routes: this.#routes.claimed,
      receive: (query, claims) => this.#receive(query, claims),
      isBlocked: () => this.#admission.isBlocked(),
      ownsNothing: () => this.#ownsNothing(),
      reportTrouble: (error) => this.#reporter.reportTrouble(error),
      checkIdle: () => this.#idleWatch.check(),
    });
  }

  #makeSuspects(): PacketSuspects<Suspect> {
    return new PacketSuspects({
      ...{ store: this.#store, leaseMs: this.#options.leaseMs, inHand: this.#admission.inHand },
      isOver: (_packet, died) => died > this.#options.crashMax,
      stopped: () => this.#stopped,
      deliver: (suspect) => this.#deliverAlone(suspect),
      left: ({ route }) => this.#releaseSlot(route),
      trouble: (error) => this.#reporter.reportTrouble(error),
    });
  }

  #makeBatches(): Batches {
    return new Batches(this.#store.clock, {
      begin: (route, packet, member) => this.#begin(route, packet, undefined, member),
      togetherMax: (route) => this.capacity.togetherMax(route),
      pass: (route, work, packets) => this.capacity.pass(route, work, packets),
    });
  }

  #makeDeliveryPorts(): RunPorts & CommitPorts {
    const { timeoutMs, graceMs, crashMax, random } = this.#options;
    return {
      ...{
        store: this.#store,
        sender: this.sender,
        history: this.#history,
        clock: this.#store.clock,
        timeoutMs,
        graceMs,
        crashMax,
        random,
      },
      shareSlot: (delivery) => this.#shareSlot(delivery),
      checkMemoryRoom: (sent) => this.memoryQueues.checkRoom(sent),
      cancelSend: (packets) => this.sender.cancelSend(packets),
    };
  }

  #makeSender(): PacketSender {
    return new PacketSender({
      ...{ registration: this.registration, routes: this.#routes, reporter: this.#reporter, options: this.#options },
      valueBytesMax: this.#store.valueBytesMax,
      takeSlot: (route) => this.#mayClaimOnSend(route) && this.capacity.take(route),
      releaseSlot: (route) => this.#releaseSlot(route),
      dispatch: (route, packet, payload) => {
        this.#claimLoop.noteStarted(packet);
        this.#dispatch(route, packet, payload);
      },
      poll: () => this.poll(),
      noteStoreTime: (now) => this.#ownership.noteStoreTime(now),
    });
  }

  #makeMemoryQueues(): MemoryQueues {
    return new MemoryQueues({
      ...{ store: this.#store, reporter: this.#reporter, options: this.#options },
      commits: new MemoryCommits(this.#store, this.sender, this.#history),
      next: this.registration.next,
      takeSlot: (route) =>
        this.states.isActive(route.flow.id) && !this.#admission.isBlocked() && this.capacity.take(route) && this.#admission.enter(route),
      releaseSlot: (route) => {
        this.#admission.leave(route);
        this.#releaseSlot(route);
      },
      ownsMark: ({ worker }) => worker === this.registration.worker,
      poll: () => this.poll(),
    });
  }
}

/**
 * Whether a delivery of this route runs user code, which may kill the process. A subworkflow node runs none, unless direct
 * edges lead on from it or the user has given a node for it; it must not keep its child from being worked on.
 */
function mayKillProcess(route: Route): boolean {
  const { work, outgoing } = route.node;
  return !waitsForChild(route) || !startsChild(work) || outgoing.some(({ route: { delivery } }) => delivery.mode === "direct");
}
