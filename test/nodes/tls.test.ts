import { join } from "node:path";
import { open } from "onceflow";
import { createRuntime, type NodeError, NodeOutput } from "onceflow/graph";
import { NodeClient, type NodeClientTls, NodeServer } from "onceflow/graph/remote";
import { mockNodeInput } from "onceflow/testing";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { makeCertificates, openssl } from "./certificates.js";

describe.skipIf(openssl() === undefined)("TLS (skipped: the program openssl is not there)", () => {
  const made: { folder?: string; certificates?: ReturnType<typeof makeCertificates> } = {};
  beforeAll(() => {
    made.folder = temporaryFolder(afterAll);
    made.certificates = makeCertificates(made.folder);
  });
  const certificates = () => made.certificates as ReturnType<typeof makeCertificates>;

  async function serving(mutual: boolean) {
    const { server: own, ca } = certificates();
    const server = new NodeServer({
      nodes: { echo: (input) => new NodeOutput().send("out", input.packet("in").data) },
      ...{ port: 0, grpcPort: 0, tls: { ...own, ...(mutual ? { clientCa: ca } : {}) } },
    });
    onTestFinished(() => server.stop({ graceMs: 0 }));
    return await server.start();
  }

  async function call(url: string, tls: NodeClientTls): Promise<string> {
    const client = new NodeClient({ url, tls });
    onTestFinished(() => client.close());
    return await Promise.resolve(client.node("echo").handle(mockNodeInput("in", { a: 1 }))).then(
      () => "answered",
      (error: NodeError) => `${error.code} ${error.message}`,
    );
  }

  test.each(["http", "grpc"] as const)("%s: the server's certificate is checked", async (protocol) => {
    const url = (await serving(false))[protocol] ?? "";
    const { ca } = certificates();
    expect(url).toMatch(/^(https|grpcs):/);
    expect(await call(url, { ca })).toBe("answered");
    expect(await call(url, { ca, serverName: "nodes.example.org" })).toBe("answered");
    expect(await call(url, { ca, serverName: "other.example.org" })).toMatch(/^TEMPORARY .*certificate/);
    expect(await call(url, {})).toMatch(/^TEMPORARY .*certificate/);
    expect(await call(url.replace("s:", ":"), {}).catch((error: Error) => error.message)).toMatch(/use https|use grpcs/);
  });

  test.each(["http", "grpc"] as const)("%s: with mutual TLS a client needs a certificate of the authority", async (protocol) => {
    const url = (await serving(true))[protocol] ?? "";
    const { ca, client, server } = certificates();
    expect(await call(url, { ca, ...client })).toBe("answered");
    expect(await call(url, { ca })).toMatch(/^TEMPORARY /);
    const other = makeCertificates(temporaryFolder(onTestFinished));
    expect(await call(url, { ca, ...other.client })).toMatch(/^TEMPORARY /);
    // Client certificates are enough for another address than loopback.
    expect(() => new NodeServer({ nodes: { a: () => {} }, host: "0.0.0.0", tls: { ...server, clientCa: ca } })).not.toThrow();
  });

  test("a registry names the files of the certificates", async () => {
    const { http = "" } = await serving(true);
    const store = await open("memory:");
    onTestFinished(() => store.close());
    const file = join(made.folder as string, "node-registry.yaml");
    const document = {
      text: `flowdsl: "1.0"
info: { title: Flow, version: "1" }
nodes: { In: { operationId: take, kind: source }, Echo: { operationId: echo, kind: transform } }
edges: [{ from: In, to: Echo, protocol: http, delivery: { mode: durable } }]
`,
    };
    const registry = { file, text: `nodes: { echo: { url: "${http}", tlsCa: ca.pem, tlsCert: client.pem, tlsKey: client.key } }` };
    const runtime = await createRuntime({ store, documents: [document], registry });
    onTestFinished(() => runtime.stop());
    const { executionId = "" } = await runtime.trigger("flow", undefined, { a: 1 });
    expect(await runtime.wait(executionId)).toMatchObject({ status: "completed", outputs: [{ node: "Echo", data: { a: 1 } }] });
    const missing = { file, text: registry.text.replace("client.pem", "none.pem") };
    await expect(createRuntime({ store, documents: [document], registry: missing })).rejects.toThrow(/none\.pem cannot be read \(ENOENT\)/);
  });
});
