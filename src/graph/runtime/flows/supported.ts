import { ConfigurationError } from "../../../core/errors/errors.js";
import { printable } from "../../../core/errors/printable.js";
import type { FlowPlan, PlannedDelivery, PlannedNode } from "../../plan/plan.js";
import { type Substitute, substitutes, type Unsupported } from "../../plan/substitutes.js";
import type { RuntimeOptions } from "../runtime-options.js";

/**
 * Rejects flows with fields that the runtime does not support, unless the user has enabled every substitute by name.
 * A runtime with `work: false` runs only direct entries, so only flows with one are checked.
 */
export function checkSupported(
  plans: readonly FlowPlan[],
  { substitutes: chosen = [], streams = "refuse", store, work = true }: RuntimeOptions,
  hasCode: (node: PlannedNode) => boolean,
): void {
  const optedIn = new Set<Substitute>(streams === "store" ? [...chosen, "stream"] : chosen);
  const runs = plans.filter(({ entries }) => work || entries.some(({ delivery }) => delivery.mode === "direct"));
  const refused = runs.flatMap((plan) =>
    [...plan.unsupported.filter(isMissing(plan, hasCode)), ...otherStores(plan, store.name), ...otherCollections(plan, store.name)].filter(
      ({ substitute }) => !optedIn.has(substitute),
    ),
  );
  if (refused.length === 0) return;
  const names = [...new Set(refused.map(({ substitute }) => substitute))];
  throw new ConfigurationError(
    `[onceflow] flow documents use fields that this runtime does not support:\n${refused.map(line).join("\n")}\n` +
      `Change the documents, or accept what the runtime does instead: substitutes: ${JSON.stringify([...optedIn, ...names])} ` +
      `(onceflow run: ${names.map((name) => `--substitute ${name}`).join(" ")})`,
    { code: "UNSUPPORTED_FIELDS" },
  );
}

/** A field that asks for a node in another process is supported if the runtime has code or an address for the node. */
function isMissing({ nodes }: FlowPlan, hasCode: (node: PlannedNode) => boolean) {
  return ({ operationId }: Unsupported): boolean =>
    operationId === undefined || ![...nodes.values()].some((node) => node.operationId === operationId && hasCode(node));
}

function line({ asked, place: { file, line: row, column }, substitute }: Unsupported): string {
  return printable(`${file}:${row}:${column} ${asked} (${substitute}: ${substitutes[substitute]})`);
}

/** The name that documents have for a store. */
function documentName(store: string): string {
  return store === "mongodb" ? "mongo" : store;
}

/** A collection for keys is used only on MongoDB. */
function otherCollections({ keyCollection }: FlowPlan, name: string): readonly Unsupported[] {
  if (keyCollection === undefined || name === "mongodb") return [];
  const asked = `idempotencyKeys: ${keyCollection.name} (the runtime uses ${name})`;
  return [{ asked, place: keyCollection.place, substitute: "x-runtime" }];
}

/** Edges and keys that name a different store than the runtime's. */
function otherStores({ edges, unsupported }: FlowPlan, name: string): readonly Unsupported[] {
  const known = new Set(unsupported.filter(({ substitute }) => substitute === "store").map(({ asked }) => asked));
  const named = edges.flatMap(({ delivery, place }) => storesOf(delivery).map((store) => ({ asked: `store: ${store}`, store, place })));
  return named
    .filter(({ asked, store }) => store !== documentName(name) && !known.has(asked))
    .map(({ asked, place }) => ({ asked: `${asked} (the runtime uses ${name})`, place, substitute: "store" }));
}

function storesOf({ store, key }: PlannedDelivery): readonly string[] {
  return [store, key?.store].filter((name) => name !== undefined);
}
