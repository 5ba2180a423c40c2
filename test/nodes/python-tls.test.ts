import { join } from "node:path";
import { NodeClient } from "onceflow/graph/remote";
import { mockNodeInput } from "onceflow/testing";
import { expect, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { makeCertificates, openssl } from "./certificates.js";
import { pythonSuite } from "./python.js";
import { RunningNodeServer } from "./server-program.js";

test.for(["http", "grpc"] as const)("the Python server over %s asks for a client certificate", async (protocol, { skip }) => {
  if (openssl() === undefined) return skip("the program openssl is not there");
  const found = await pythonSuite(protocol);
  if (!found.ok) return skip(found.reason);
  const folder = temporaryFolder(onTestFinished);
  const { ca, client } = makeCertificates(folder);
  const [cert, key, clientCa] = ["server.pem", "server.key", "ca.pem"].map((file) => join(folder, file)) as [string, string, string];
  const { url } = await RunningNodeServer.start(found.suite.program, { protocol, tls: { cert, key, clientCa } }, onTestFinished);
  expect(url).toMatch(/^(https|grpcs):/);
  const echo = async (tls: object) => {
    const caller = new NodeClient({ url, tls });
    onTestFinished(() => caller.close());
    return (await caller.node("echo").handle(mockNodeInput("in", { a: 1 })))?.sent;
  };
  expect(await echo({ ca, ...client })).toEqual([{ port: "out", data: { a: 1 } }]);
  await expect(echo({ ca })).rejects.toMatchObject({ code: "TEMPORARY" });
  await expect(echo({ ...client })).rejects.toMatchObject({ code: "TEMPORARY" });
});
