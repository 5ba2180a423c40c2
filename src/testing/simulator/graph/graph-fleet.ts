import type { PacketBackend } from "../../../core/packets/operation.js";
import { createStore } from "../../../core/store/create-store.js";
import { createRuntime, type Runtime } from "../../../graph/runtime/runtime.js";
import { type Host, HostFleet, type NewProcess } from "../host-fleet.js";
import type { Storm } from "../workflow/run-faults.js";
import { type NodeWorld, nodesFor } from "./graph-nodes.js";
import { type WithPackets, withPacketFaults } from "./packet-faults.js";

/** A process with a graph runtime. */
export interface GraphHost extends Host {
  /** Never resolves if the process dies before the runtime has started. */
  readonly runtime: Promise<Runtime>;
  /** The runtime, once it has started. */
  up: Runtime | undefined;
}

interface FleetOptions extends NodeWorld {
  readonly storm: Storm;
  readonly server: WithPackets;
  readonly engine: (packets: PacketBackend) => PacketBackend;
}

export class GraphFleet extends HostFleet<GraphHost> {
  readonly #options: FleetOptions;

  constructor(options: FleetOptions) {
    const { world, plan, observer } = options;
    super({ world, plan, note: (line) => observer.note(line) });
    this.#options = options;
  }

  protected override start({ process, died, slot, die }: NewProcess): GraphHost {
    const { world, plan, storm, server, engine, observer } = this.#options;
    const { packets, ...ledger } = withPacketFaults(server, { world, process, storm, die });
    const store = createStore({ ...ledger, packets: engine(packets) }, { clock: process.clock, purgeEveryMs: 0 });
    const { work, concurrency } = plan.slots[slot] as { work: boolean; concurrency: number };
    const { flow, leaseMs, pollMs, timeoutMs, graceMs, crashMax, joinWaitMs, onMismatch } = plan;
    const runtime = createRuntime({
      store,
      documents: [flow],
      nodes: nodesFor(this.#options, process, die),
      ...{ work, concurrency, leaseMs, pollMs, timeoutMs, graceMs, crashMax, joinWaitMs, onMismatch },
      // Drawn documents may have idempotency keys on direct edges; the nodes receive them.
      substitutes: ["idempotencyKey", "execution"],
      random: () => world.random.next(),
      history: { level: "full", entriesMax: 10_000, valueBytesMax: 64 },
    });
    const host: GraphHost = { process, store, runtime, up: undefined, died };
    runtime.then(
      (up) => {
        host.up = up;
      },
      // The runtime could not register with the store: a supervisor starts the process again.
      () => die("during its start"),
    );
    observer.note(() => `p${process.id} boots in slot ${slot}${work ? "" : ", without a worker"}`);
    return host;
  }

  protected override isUp({ up }: GraphHost): boolean {
    return up !== undefined;
  }

  protected override async stop({ up, store }: GraphHost, graceMs: number): Promise<void> {
    await up?.stop({ graceMs }).catch(() => {});
    await store.close().catch(() => {});
  }
}
