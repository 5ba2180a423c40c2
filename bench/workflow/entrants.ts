import { acquire } from "../../test/servers/acquire.js";
import { messageOf } from "../../test/servers/process/command.js";
import type { Conditions } from "../conditions.js";
import { installPeer } from "./peers.js";

export const storeTitles = { postgres: "PostgreSQL", sqlite: "SQLite", own: "its own log" } as const;
export type StoreName = keyof typeof storeTitles;

/** A contender on a store. */
export interface Entrant {
  readonly name: string;
  readonly kind: "ours" | "peer" | "floor";
  readonly store: StoreName;
  readonly module: string;
  /** The path of the Node that runs it. */
  readonly node: string;
}

/** A contender that could not take part, or that failed during a measurement. */
export interface LeftOut {
  readonly name: string;
  readonly store: StoreName;
  readonly what: string;
  readonly reason: string;
}

export const names = {
  ours: "onceflow",
  floor: "floor: bare commit",
  dbos: "DBOS Transact",
  openworkflow: "OpenWorkflow",
  restate: "Restate, 4 partitions",
} as const;

export interface Field {
  readonly entrants: readonly Entrant[];
  readonly leftOut: readonly LeftOut[];
  readonly conditions: Conditions;
}

/** A floor comes right after the entrant that it is compared with, so that both find the disk in the same state. */
const own: readonly Omit<Entrant, "node">[] = [
  { name: names.ours, kind: "ours", store: "postgres", module: "ours" },
  { name: names.floor, kind: "floor", store: "postgres", module: "floor-postgres" },
  { name: names.ours, kind: "ours", store: "sqlite", module: "ours" },
  { name: names.floor, kind: "floor", store: "sqlite", module: "floor-sqlite" },
];

interface PeerEntry {
  readonly name: string;
  readonly folder: string;
  /** Two of them need features that Node 20 lacks: `node:sqlite`, or `Promise.withResolvers`. */
  readonly on: readonly { readonly store: StoreName; readonly newer?: boolean }[];
}

const peers: readonly PeerEntry[] = [
  { name: names.dbos, folder: "dbos", on: [{ store: "postgres" }] },
  { name: names.openworkflow, folder: "openworkflow", on: [{ store: "postgres" }, { store: "sqlite", newer: true }] },
  { name: names.restate, folder: "restate", on: [{ store: "own", newer: true }] },
];

export async function gather({ ours, withPeers }: { ours: boolean; withPeers: boolean }): Promise<Field> {
  const here = own.filter(({ kind }) => ours || kind === "floor").map((entry) => ({ ...entry, node: process.execPath }));
  if (!withPeers) return { entrants: here, leftOut: [], conditions: {} };
  const newer = await newerNode();
  const found: Field[] = [];
  for (const peer of peers) found.push(await gatherPeer(peer, newer));
  return {
    entrants: [...here, ...found.flatMap(({ entrants }) => entrants)],
    leftOut: found.flatMap(({ leftOut }) => leftOut),
    conditions: Object.assign({}, ...found.map(({ conditions }) => conditions)) as Conditions,
  };
}

/** A Node with the features that Node 20 lacks, or the reason why there is none. */
type NewerNode = { readonly path: string; readonly version: string } | { readonly missing: string };

async function newerNode(): Promise<NewerNode> {
  const { node: version } = process.versions;
  if (Number(version.split(".")[0]) >= 24) return { path: process.execPath, version };
  const acquired = await acquire("node24");
  if (!acquired.ok) return { missing: `needs Node 22 or newer: ${acquired.reason}` };
  const { path, from } = acquired.running;
  return { path, version: /v([\d.]+)$/.exec(from)?.[1] ?? "24" };
}

async function gatherPeer({ name, folder, on }: PeerEntry, newer: NewerNode): Promise<Field> {
  const entrants: Entrant[] = [];
  const leftOut: LeftOut[] = [];
  const leave = (store: StoreName, reason: string) => void leftOut.push({ name, store, what: "everything", reason: publishable(reason) });
  const peer = await installPeer(folder).catch((error: unknown) => messageOf(error));
  if (typeof peer === "string") {
    for (const { store } of on) leave(store, peer);
    return { entrants, leftOut, conditions: {} };
  }
  const nodes = new Set<string>();
  for (const { store, newer: needsNewer = false } of on) {
    const node = needsNewer ? newer : { path: process.execPath, version: process.versions.node };
    if ("missing" in node) {
      leave(store, node.missing);
      continue;
    }
    nodes.add(`${node.version} (${storeTitles[store]})`);
    entrants.push({ name, kind: "peer", store, module: peer.module, node: node.path });
  }
  const packages = Object.entries(peer.versions).map(([dependency, version]) => `${dependency} ${version}`);
  return { entrants, leftOut, conditions: { [name]: `${packages.join(", ")}; on Node ${[...nodes].join(", ")}` } };
}

/** The reason without paths and hosts of this machine, because results are published, as one line of limited length. */
export function publishable(reason: string): string {
  const [first = ""] = reason.replace(/^Error: /, "").split("\n");
  return first.replaceAll(/[a-z]+:\/\/\S+|(?:\/[\w.@+~-]+){2,}/g, "…").slice(0, 300);
}
