import type { Command } from "commander";
import { type Manifest, NodeClient, type NodeHealth, type RegistryServer } from "../../exports/graph/remote.js";
import { InvalidInputError } from "../../exports/index.js";
import { clientOptionsOf, readCertificates } from "../../graph/remote/registry/remote-nodes.js";
import { addSettingsOptions, type DocumentOptions, settingsFor } from "../document-options.js";
import { exitFound } from "../exit-codes.js";
import { print, printJson, table } from "../output.js";
import { tokenOf } from "../token.js";
import { usableRegistry } from "../usable-registry.js";

interface Options extends Pick<DocumentOptions, "config" | "verbose"> {
  readonly registry?: string;
  readonly url?: string;
  readonly tokenFile?: string;
  readonly json?: boolean;
}

export function addNodes(program: Command): void {
  const command = program
    .command("nodes")
    .description("List node servers with their state and their nodes; exit code 1 if a server does not answer or misses a node")
    .option("--registry <file>", "registry of node servers, YAML or JSON (default: `registry` of .flowdslrc)")
    .option("--url <server>", "one server: http://, https://, grpc:// or grpcs://")
    .option("--token-file <file>", "with --url: file with the server's token (or set ONCEFLOW_TOKEN)")
    .option("--json", "print JSON");
  addSettingsOptions(command).action(nodes);
}

/** A server, and the nodes that the registry expects there. */
interface Asked {
  readonly name: string;
  readonly client: NodeClient;
  readonly expected: readonly string[];
}

interface Listed {
  readonly server: string;
  readonly url: string;
  readonly status: NodeHealth["status"] | "down";
  readonly inFlight?: number;
  readonly concurrency?: number;
  readonly sdk?: string;
  readonly nodes: readonly (Manifest["nodes"][number] & { readonly missing?: true })[];
  readonly error?: string;
}

async function nodes(options: Options): Promise<void> {
  const asked = await askedServers(options);
  // Each server has 5 s to answer.
  const listed = await Promise.all(asked.map(ask));
  if (options.json) printJson(listed);
  else print(table(["SERVER", "URL", "STATUS", "IN FLIGHT", "SDK", "NODE", "VERSION", "ABOUT"], listed.flatMap(rowsOf)));
  if (listed.some(({ status, nodes: own }) => status === "down" || own.some(({ missing }) => missing))) process.exitCode = exitFound;
}

async function askedServers(options: Options): Promise<readonly Asked[]> {
  const { registry, url } = options;
  if (registry !== undefined && url !== undefined) throw new InvalidInputError("registry", "give either --registry or --url, not both");
  if (url !== undefined) return [await serverAt(url, options)];
  const file = registry ?? (await settingsFor(options)).registry;
  if (file === undefined) throw new InvalidInputError("registry", "give either --registry or --url, or set `registry` in .flowdslrc");
  return await serversOf(file);
}

async function serverAt(url: string, { tokenFile }: Options): Promise<Asked> {
  const token = await tokenOf(tokenFile);
  const client = new NodeClient({ url, ...(token === undefined ? {} : { token }) });
  return { name: "-", client, expected: [] };
}

async function serversOf(file: string): Promise<readonly Asked[]> {
  const registry = await usableRegistry(file);
  const certificates = await readCertificates(registry);
  const nodesOf = (server: RegistryServer) => [...registry.nodes.values()].filter((node) => node.server === server);
  return registry.servers.map((server) => ({
    name: server.name,
    client: new NodeClient(clientOptionsOf(server, certificates)),
    expected: nodesOf(server).map(({ operationId }) => operationId),
  }));
}

async function ask({ name, client, expected }: Asked): Promise<Listed> {
  try {
    const [{ status, inFlight, concurrency }, { sdk, nodes: there }] = await Promise.all([client.health(), client.manifest()]);
    const missing = expected
      .filter((operationId) => !there.some((node) => node.operationId === operationId))
      .map((operationId) => ({ operationId, missing: true as const }));
    const about = `${sdk.language} ${sdk.version}`;
    return { server: name, url: client.url, status, inFlight, concurrency, sdk: about, nodes: [...there, ...missing] };
  } catch (error) {
    const nodes = expected.map((operationId) => ({ operationId }));
    return { server: name, url: client.url, status: "down", nodes, error: error instanceof Error ? error.message : String(error) };
  } finally {
    client.close();
  }
}

/** The server's cells, below its first row. */
const noCells = [undefined, undefined, undefined, undefined, undefined];

function rowsOf({ server, url, status, inFlight, concurrency, sdk, nodes, error }: Listed) {
  const load = inFlight === undefined ? undefined : `${inFlight} of ${concurrency}`;
  const rows = nodes.map(({ operationId, version, summary, missing }, i) => {
    const about = missing ? "not on this server: deploy it, or correct the registry" : (summary ?? (i === 0 ? error : undefined));
    return i === 0 ? [server, url, status, load, sdk, operationId, version, about] : [...noCells, operationId, version, about];
  });
  return rows.length > 0 ? rows : [[server, url, status, load, sdk, undefined, undefined, error]];
}
