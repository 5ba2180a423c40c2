import type { Metrics } from "../core/store/store.js";
import type { NodeMetrics, Runtime, RuntimeMetrics } from "../exports/graph.js";
import { type MetricFamily, prometheusText } from "./prometheus.js";

const ofRuntime = {
  triggered: "Executions triggered by this process",
  processed: "Packets whose node returned",
  acknowledged: "Packets not delivered because their key was already completed",
  held: "Packets that waited for another packet with the same key or lane",
  retried: "Deliveries that failed and will be retried",
  dead: "Packets that failed for good",
  ended: "Executions that ended in this process",
  lost: "Packets found lost: a process had them in memory when it died or stopped",
  leasesLost: "How many times the lease of this process expired",
} as const satisfies Partial<Record<keyof RuntimeMetrics, string>>;

const ofNode = {
  processed: "Packets whose node returned, by node",
  acknowledged: "Packets not delivered because their key was already completed, by node",
  retried: "Deliveries that failed and will be retried, by node",
  dead: "Packets that failed for good, by node",
} as const satisfies Partial<Record<keyof NodeMetrics, string>>;

const queueStates = ["due", "held", "parts", "owned", "dead"] as const;

/** The metrics in the Prometheus text format. Counters cover this process, queue sizes the whole store. */
export async function metricsText(runtime: Runtime): Promise<string> {
  const { metrics, store } = runtime;
  const counts = await runtime.counts();
  const families: MetricFamily[] = [
    ...entries(ofRuntime).map(([name, help]) => counter(`onceflow_${snake(name)}_total`, help, [{ value: metrics[name] }])),
    gauge("onceflow_packets_in_flight", "Packets that this process holds now", [{ value: metrics.inFlight }]),
    ...entries(ofNode).map(([name, help]) => {
      return counter(
        `onceflow_node_${name}_total`,
        help,
        metrics.nodes.map((each) => ({ labels: labelsOf(each), value: each[name] })),
      );
    }),
    counter(
      "onceflow_node_seconds_total",
      "Duration of successful calls, by node",
      metrics.nodes.map((each) => ({ labels: labelsOf(each), value: each.ms / 1000 })),
    ),
    gauge(
      "onceflow_queue_packets",
      "Packets in the store, by edge and state",
      counts.flatMap(({ flow, queue, ...states }) =>
        queueStates.map((state) => ({ labels: { flow, queue, state }, value: states[state] })),
      ),
    ),
    ...entries(store.metrics satisfies Metrics).map(([name, value]) => {
      return counter(`onceflow_store_${snake(name)}_total`, `Store counter "${name}"`, [{ labels: { store: store.name }, value }]);
    }),
  ];
  return prometheusText(families);
}

const counter = (name: string, help: string, samples: MetricFamily["samples"]): MetricFamily => ({ name, type: "counter", help, samples });
const gauge = (name: string, help: string, samples: MetricFamily["samples"]): MetricFamily => ({ name, type: "gauge", help, samples });

function entries<Of extends object>(of: Of): [keyof Of & string, Of[keyof Of]][] {
  return Object.entries(of) as [keyof Of & string, Of[keyof Of]][];
}

function labelsOf({ flow, node }: NodeMetrics) {
  return { flow, node };
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
