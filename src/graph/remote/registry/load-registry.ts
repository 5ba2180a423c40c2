import { type Finding, Findings, type Place, placeOf, wholeFile } from "../../findings/finding.js";
import { defaultLimits } from "../../load/limits.js";
import { loadTree } from "../../load/load.js";
import type { FlowSource } from "../../load/load-flows.js";
import { readText } from "../../load/read-text.js";
import { entriesOf, type Spot } from "../../load/tree.js";
import { Fields } from "../../normalise/fields.js";
import { readTokenEnv, reportUrl } from "../../normalise/node-address.js";
import { callMsMax } from "../client/options.js";

/** A node server of a registry. Paths of certificates are relative to the registry. */
export interface RegistryServer {
  readonly name: string;
  readonly url: string;
  /** Environment variable with the token. */
  readonly tokenEnv?: string;
  readonly tlsCa?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly tlsServerName?: string;
  readonly concurrency?: number;
  readonly queueMax?: number;
  readonly timeoutMs?: number;
  readonly streaming?: boolean;
  readonly place: Place;
}

/** A node of a registry: where it is, and what differs from its server's defaults. */
export interface RegistryNode {
  readonly operationId: string;
  readonly server: RegistryServer;
  readonly timeoutMs?: number;
  readonly streaming?: boolean;
  readonly place: Place;
}

/** Which server has which node. Made by `loadRegistry`. */
export interface NodeRegistry {
  readonly file: string;
  readonly servers: readonly RegistryServer[];
  readonly nodes: ReadonlyMap<string, RegistryNode>;
}

/** The result of `loadRegistry`. */
export interface LoadedRegistry {
  /** True if there are no errors. */
  readonly ok: boolean;
  /** Empty if there are errors. */
  readonly registry: NodeRegistry;
  readonly findings: readonly Finding[];
}

const callsMax = 100_000;

/**
 * Loads a registry of node servers (YAML or JSON) and reports everything that is wrong with it, with positions. A file that cannot
 * be read is a finding, too.
 *
 * @example
 * const { ok, registry, findings } = await loadRegistry("node-registry.yaml");
 */
export async function loadRegistry(from: FlowSource): Promise<LoadedRegistry> {
  const findings = new Findings(defaultLimits.findingsMax);
  const file = typeof from === "string" ? from : (from.file ?? "node-registry.yaml");
  const text = typeof from === "string" ? await readText(from, defaultLimits.bytesMax) : from.text;
  const empty = { file, servers: [], nodes: new Map<string, RegistryNode>() };
  if (typeof text !== "string") findings.add(text.code, wholeFile(file), `cannot be read: ${text.problem}`, text.fix);
  else if (text.trim() === "") findings.add("FLOW_SYNTAX", wholeFile(file), "the registry is empty", "start with `servers:`");
  const tree = typeof text === "string" && text.trim() !== "" ? loadTree({ text, file }, defaultLimits, findings) : undefined;
  const registry = tree && readRegistry(file, { tree, pointer: "" }, findings);
  // A misspelt field of a registry would send calls to the wrong place, or without a limit.
  const listed = findings
    .list(file)
    .map((finding): Finding => (finding.code === "FLOW_UNKNOWN_FIELD" ? { ...finding, severity: "error" } : finding));
  const ok = !listed.some(({ severity }) => severity === "error");
  return { ok, registry: ok && registry ? registry : empty, findings: listed };
}

function readRegistry(file: string, spot: Spot, findings: Findings): NodeRegistry | undefined {
  const fields = Fields.of(spot, findings);
  if (fields === undefined) return undefined;
  const servers = new Map<string, RegistryServer>();
  const listed = fields.at("servers");
  if (listed !== undefined && Fields.of(listed, findings) !== undefined)
    for (const { name, ...each } of entriesOf(listed)) {
      const server = Fields.of(each, findings);
      const read = server && readServer(name, server, findings);
      server?.done();
      if (read !== undefined) servers.set(name, read);
    }
  const nodes = new Map<string, RegistryNode>();
  const given = fields.at("nodes");
  if (given === undefined) fields.missing("nodes");
  else if (Fields.of(given, findings) !== undefined)
    for (const { name, ...each } of entriesOf(given)) {
      const node = readNode(name, each, servers, findings);
      if (node !== undefined) nodes.set(name, node);
    }
  fields.done();
  const own = [...nodes.values()].map(({ server }) => server);
  return { file, servers: [...new Set([...servers.values(), ...own])], nodes };
}

/** `charge_payment: payments`, `{ server: payments, timeoutMs: 500 }`, or the fields of a server of its own. */
function readNode(
  operationId: string,
  spot: Spot,
  servers: ReadonlyMap<string, RegistryServer>,
  findings: Findings,
): RegistryNode | undefined {
  const place = placeOf(spot);
  const named = (name: string, at: Spot): RegistryServer | undefined => {
    const server = servers.get(name);
    if (server === undefined)
      findings.add(
        "FLOW_UNKNOWN_SERVER",
        at,
        `server "${name}" not found; servers: ${[...servers.keys()].join(", ") || "none"}`,
        "add it under `servers:`",
      );
    return server;
  };
  if (spot.tree.kind === "scalar" && typeof spot.tree.value === "string") {
    const server = named(spot.tree.value, spot);
    return server && { operationId, server, place };
  }
  const fields = Fields.of(spot, findings);
  if (fields === undefined) return undefined;
  const name = fields.text("server");
  const server = name === undefined ? readServer(operationId, fields, findings) : named(name, fields.at("server") ?? spot);
  const timeoutMs = fields.integer("timeoutMs", 1, callMsMax);
  const streaming = fields.flag("streaming");
  fields.done();
  return (
    server && { operationId, server, place, ...(timeoutMs !== undefined && { timeoutMs }), ...(streaming !== undefined && { streaming }) }
  );
}

function readServer(name: string, fields: Fields, findings: Findings): RegistryServer | undefined {
  const url = fields.required("url");
  const isGood = url !== undefined && reportUrl(url, fields.at("url") ?? fields.spot, findings, ["http:", "https:", "grpc:", "grpcs:"]);
  const texts = {
    ...{ tokenEnv: readTokenEnv(fields, findings), tlsCa: fields.text("tlsCa"), tlsCert: fields.text("tlsCert") },
    ...{ tlsKey: fields.text("tlsKey"), tlsServerName: fields.text("tlsServerName") },
  };
  const numbers = {
    concurrency: fields.integer("concurrency", 1, callsMax),
    queueMax: fields.integer("queueMax", 0, 10 * callsMax),
    timeoutMs: fields.integer("timeoutMs", 1, callMsMax),
    streaming: fields.flag("streaming"),
  };
  if ((texts.tlsCert === undefined) !== (texts.tlsKey === undefined)) fields.missing(texts.tlsCert === undefined ? "tlsCert" : "tlsKey");
  const wantsTls = texts.tlsCa ?? texts.tlsCert ?? texts.tlsServerName;
  if (isGood && wantsTls !== undefined && !new URL(url).protocol.endsWith("s:"))
    findings.add(
      "FLOW_BAD_VALUE",
      fields.at("url") ?? fields.spot,
      "the url has no TLS, but certificates are given",
      "use https:// or grpcs://",
    );
  if (!isGood) return undefined;
  const set = Object.entries({ ...texts, ...numbers }).filter(([, value]) => value !== undefined);
  return { name, url, place: placeOf(fields.spot), ...(Object.fromEntries(set) as Partial<RegistryServer>) };
}
