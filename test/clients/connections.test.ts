import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { inspect } from "onceflow";
import { cuttingProxy } from "onceflow/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { isFull, sample } from "../kit/effort.js";
import { Program } from "../kit/program.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { until } from "../kit/until.js";
import { makeCertificates, openssl } from "../nodes/certificates.js";
import { languages, titleOf } from "./languages.js";
import { serveApi } from "./programs/serve-api.js";
import { clientScene, token } from "./scene.js";

const begin = "/onceflow/keys/begin";
const settle = "/onceflow/keys/settle";

/** A server on loopback that is not the API. */
async function otherServer(serve: RequestListener): Promise<string> {
  const server = createServer(serve);
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(
    () =>
      new Promise<void>((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  );
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe.for(languages)("the client of", (language) => {
  const { program } = language;

  describe.skipIf(!program.ok)(titleOf(language), () => {
    test("the reply to the begin is lost: the begin that is sent again finds its own attempt", async () => {
      const scene = await clientScene({ language });
      const proxy = await cuttingProxy({ host: "127.0.0.1", port: scene.api.port });
      onTestFinished(() => proxy.close());
      proxy.cutNext("reply");
      const call = { key: "charge:order-1", effect: "atMostOnce" } as const;
      const lines = await scene.run([call], { url: `http://127.0.0.1:${proxy.port}/onceflow` });
      expect(lines).toMatchObject([{ status: "executed", attempt: 1 }]);
      expect(proxy.cuts).toBe(1);
      expect(scene.effectsOf(call)).toEqual({ applied: 1, calls: 1 });
      expect((await inspect(scene.store, { key: call.key }))?.attempts).toMatchObject([{ verdict: "completed" }]);
    });

    test("the reply to the settle is lost: the settle that is sent again is answered alike", async () => {
      const scene = await clientScene({ language });
      const proxy = await cuttingProxy({ host: "127.0.0.1", port: scene.api.port });
      onTestFinished(() => proxy.close());
      const call = { key: "charge:order-1", effect: "atMostOnce" } as const;
      const held = scene.proxy.hold("/effects", "reply");
      const client = scene.start([call, call], { url: `http://127.0.0.1:${proxy.port}/onceflow` });
      await held.arrived;
      proxy.cutNext("reply");
      held.release();
      expect(await client.lines).toMatchObject([
        { status: "executed", attempt: 1 },
        { status: "replayed", attempt: 1 },
      ]);
      expect(proxy.cuts).toBe(1);
      expect(scene.effectsOf(call)).toEqual({ applied: 1, calls: 1 });
    });

    test.for(sample([begin, settle], 2))(
      "the connection breaks in the middle of the reply of %s: the request is sent again",
      async (path) => {
        const scene = await clientScene({ language });
        scene.proxy.breakNext(path, "half");
        const call = { key: "charge:order-1", effect: "atMostOnce" } as const;
        expect(await scene.run([call])).toMatchObject([{ status: "executed", attempt: 1 }]);
        expect(scene.proxy.requests.filter((one) => one === path).length).toBe(2);
        expect(scene.effectsOf(call)).toEqual({ applied: 1, calls: 1 });
        expect(await inspect(scene.store, { key: call.key })).toMatchObject({ state: "completed", attempt: 1 });
      },
    );

    test("another server answers the settle, as a proxy in between does: that is not taken for a saved outcome", async () => {
      const scene = await clientScene({ language });
      scene.proxy.breakNext(settle, "other");
      const call = { key: "charge:order-1", effect: "atMostOnce" } as const;
      expect(await scene.run([call])).toMatchObject([{ status: "executed", attempt: 1 }]);
      expect(await inspect(scene.store, { key: call.key })).toMatchObject({ state: "completed", attempt: 1 });
    });

    test("the server is killed while the handler runs, and started again on the same database: the outcome is saved", async () => {
      const scene = await clientScene({ language });
      const serverProcess = () => new Program<number>("clients/programs/api-server", [scene.url, token], { onEnd: onTestFinished });
      const server = serverProcess();
      scene.proxy.apiPort = await server.next();
      const call = { key: "charge:order-1", effect: "atMostOnce", leaseMs: 60_000 } as const;
      const held = scene.proxy.hold("/effects", "reply");
      const client = scene.start([call]);
      await held.arrived;
      await server.kill();
      held.release();
      const settles = () => scene.proxy.requests.filter((path) => path.endsWith("/settle")).length;
      await until("a settle has failed", () => settles() >= 2);
      scene.proxy.apiPort = await serverProcess().next();
      expect(await client.lines).toMatchObject([{ status: "executed", attempt: 1 }]);
      expect(scene.effectsOf(call)).toEqual({ applied: 1, calls: 1 });
      expect(await inspect(scene.store, { key: call.key })).toMatchObject({ state: "completed", attempt: 1 });
    });

    test("the server is down at the begin, and comes back: the call goes on", async () => {
      const scene = await clientScene({ language });
      await scene.api.close();
      const client = scene.start([{ key: "charge:order-1" }]);
      await until("a begin has failed", () => scene.proxy.requests.length >= 2);
      const api = await serveApi(scene.store, { token });
      onTestFinished(() => api.close());
      scene.proxy.apiPort = api.port;
      expect(await client.lines).toMatchObject([{ status: "executed", attempt: 1 }]);
    });

    test("the server is down for longer than the caller waits for the save: NOT_SAVED, and the client goes on saving", async () => {
      const scene = await clientScene({ language });
      const call = { key: "charge:order-1", effect: "atMostOnce", leaseMs: 60_000, waitMs: 120_000 } as const;
      const held = scene.proxy.hold("/effects", "reply");
      const client = scene.start([call, call], { saveMs: 300 });
      await held.arrived;
      await scene.api.close();
      held.release();
      // The second call of the program begins when the first one has ended with the error.
      await until("the first call has ended", () => scene.proxy.requests.filter((path) => path.endsWith("/begin")).length >= 2);
      const api = await serveApi(scene.store, { token });
      onTestFinished(() => api.close());
      scene.proxy.apiPort = api.port;
      expect(await client.lines).toMatchObject([
        { error: "NOT_SAVED", attempt: 1, retryable: true },
        { status: "replayed", attempt: 1 },
      ]);
      expect(scene.effectsOf(call)).toEqual({ applied: 1, calls: 1 });
    });

    test("a wrong token, a missing role, hidden values and a wrong address are refused, and no message has the token", async () => {
      const scene = await clientScene({ language, roles: ["work"] });
      const key = "charge:order-1";
      const calls = [{ key }];
      const lines = await scene.runPlans([
        { calls, token: "a-wrong-token" },
        { calls: [...calls, ...calls] },
        { calls, url: scene.proxy.url },
      ]);
      expect(lines).toMatchObject([
        { error: "SERVER_REFUSED", message: expect.stringContaining("401 UNAUTHORIZED") },
        { status: "executed" },
        { error: "SERVER_REFUSED", message: expect.stringContaining("values") },
        { error: "SERVER_REFUSED" },
      ]);
      expect(JSON.stringify(lines)).not.toMatch(/a-wrong-token|the-token-of-the-client/);
    });

    test("the token goes to this machine or over https only, and never to the target of a redirect", async () => {
      const scene = await clientScene({ language });
      const secret = "secret-token";
      const received: unknown[] = [];
      const target = await otherServer((request, response) => {
        received.push(request.headers.authorization);
        response.end("{}");
      });
      const redirecting = await otherServer((_, response) => response.writeHead(307, { location: `${target}/keys/begin` }).end());
      const calls = [{ key: "k" }];
      const urls = ["http://example.com/x", "http://127.0.0.1.example.com", "http://127.0.0.1@example.com", "http://2130706433"];
      const lines = await scene.runPlans([
        ...urls.map((url) => ({ calls, url, token: secret })),
        { calls, token: `${secret}\r\nx-other: 1` },
        { calls, url: redirecting, token: secret },
      ]);
      expect(lines).toMatchObject([
        ...urls.map(() => ({ error: "INVALID_INPUT", message: expect.stringMatching(/url/i) })),
        { error: "INVALID_INPUT", message: expect.stringMatching(/token/i) },
        { error: "SERVER_REFUSED", message: expect.stringContaining("307") },
      ]);
      expect(JSON.stringify(lines)).not.toContain(secret);
      expect(received).toEqual([]);
    });

    test("over https: a server whose certificate is not trusted gets no token, and is refused at once", async ({ skip }) => {
      if (openssl() === undefined) return skip("the program openssl is not there");
      const scene = await clientScene({ language });
      const folder = temporaryFolder(onTestFinished);
      const { server: certificate } = makeCertificates(folder);
      const server = createTlsServer(certificate, (socket) => {
        const upstream = connect(Number(new URL(scene.proxy.url).port), "127.0.0.1");
        socket
          .on("error", () => {})
          .pipe(upstream)
          .pipe(socket);
      });
      await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
      onTestFinished(() => void server.close());
      const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}/onceflow`;
      const calls = [{ key: "charge:order-1" }];
      const lines = await scene.runPlans([
        { url, calls },
        { url, calls, caFile: join(folder, "ca.pem") },
      ]);
      expect(lines).toMatchObject([
        { error: "SERVER_REFUSED", message: expect.stringContaining("certificate") },
        { status: "executed", attempt: 1 },
      ]);
      expect(scene.proxy.requests).toEqual(["/onceflow/keys/begin", "/effects", "/onceflow/keys/settle"]);
    });

    test("an answer that is not the API's is refused, and is not taken for an outcome", async () => {
      const scene = await clientScene({ language });
      const answers = ["<html>", "[]", "{}", '{"status":"started"}', '{"status":"replayed","state":"completed","attempt":1}'];
      const urls = await Promise.all(answers.map((answer) => otherServer((_, response) => response.end(answer))));
      const lines = await scene.runPlans(urls.map((url) => ({ url, calls: [{ key: "k" }] })));
      expect(lines.map(({ error }) => error)).toEqual(answers.map(() => "SERVER_REFUSED"));
    });

    test.skipIf(!isFull).for(["silent", "one byte at a time"])("a server that is %s: no call hangs", async (way) => {
      const scene = await clientScene({ language });
      const url = await otherServer((_, response) => {
        if (way === "silent") return;
        const timer = setInterval(() => response.write(" "), 50);
        onTestFinished(() => clearInterval(timer));
      });
      const [line] = await scene.run([{ key: "k" }], { url, requestMs: 300 });
      expect(line).toMatchObject({ error: "NOT_KNOWN", retryable: true });
    });
  });
});
