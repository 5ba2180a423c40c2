import { join } from "node:path";
import { NodeOutput } from "onceflow/graph";
import { NodeClient } from "onceflow/graph/remote";
import { mockNodeInput } from "onceflow/testing";
import { expect, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { makeCertificates, openssl } from "./certificates.js";
import { nodeServerContract } from "./contract.js";
import { remoteFlowCases } from "./end-to-end.js";
import { goProgram } from "./go.js";
import { type NodeProgram, type NodeProtocol, RunningNodeServer } from "./server-program.js";

for (const protocol of ["http", "grpc"] as const) {
  const built = await goProgram(protocol);
  if (built.ok) {
    const suite = { program: built.program, dedupe: (path: string) => `file:${path}`, protocols: [protocol] };
    nodeServerContract("Go", suite);
    remoteFlowCases("Go", suite);
    mutualTls(protocol, built.program);
  } else test(`node server in Go over ${protocol}`, ({ skip }) => skip(built.reason));
}

function mutualTls(protocol: NodeProtocol, program: NodeProgram): void {
  test(`mutual TLS between this runtime and a server in Go over ${protocol}`, async ({ skip }) => {
    if (openssl() === undefined) return skip("the program openssl is not there");
    const folder = temporaryFolder(onTestFinished);
    const { ca, client } = makeCertificates(folder);
    const [cert, key, clientCa] = ["server.pem", "server.key", "ca.pem"].map((name) => join(folder, name)) as [string, string, string];
    const { url } = await RunningNodeServer.start(program, { protocol, tls: { cert, key, clientCa } }, onTestFinished);
    const call = async (tls: object) => {
      const connected = new NodeClient({ url, tls });
      onTestFinished(() => connected.close());
      return await connected.node("echo").handle(mockNodeInput("in", { a: 1 }));
    };
    const output = await call({ ca, ...client });
    expect(output instanceof NodeOutput && output.sent).toEqual([{ port: "out", data: { a: 1 } }]);
    await expect(call({ ca })).rejects.toMatchObject({ code: "TEMPORARY" });
  });
}
