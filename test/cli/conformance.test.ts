import { open } from "onceflow";
import { idempotent } from "onceflow/http";
import { expect, onTestFinished, test } from "vitest";
import { serving } from "../http/servers.js";
import { onceflow } from "./process.js";

test("conformance accepts custom bodies, a counter of effects, and a server that stores failures", async () => {
  const store = await open("memory:");
  const effects = new Map<string, number>();
  let twice = false;
  let made = 0;
  const handler = idempotent(
    async (request) => {
      const key = (request.headers.get("idempotency-key") ?? "").replaceAll('"', "");
      if (new URL(request.url).pathname === "/failing") return Response.json({ failure: ++made }, { status: 500 });
      const body = (await request.json()) as object;
      // Behaves as a server that validates its input.
      if (Object.keys(body).join() !== "amount") return Response.json({ wrong: body }, { status: 400 });
      effects.set(key, (effects.get(key) ?? 0) + (twice ? 2 : 1));
      return Response.json({ id: ++made }, { status: 201, headers: { location: `/orders/${made}` } });
    },
    { store, scope: "me", keeps: () => true },
  );
  const server = await serving((request) => {
    const { pathname, searchParams } = new URL(request.url);
    return pathname === "/effects" ? new Response(String(effects.get(searchParams.get("key") ?? "") ?? 0)) : handler(request);
  });
  onTestFinished(async () => {
    await server.close();
    await store.close();
  });
  const check = async (...more: string[]) => {
    const asked = ["conformance", "http", `${server.url}/orders`, "--failing-url", `${server.url}/failing`, "--json", ...more];
    const { code, out } = await onceflow(asked);
    const { cases } = JSON.parse(out) as { cases: { name: string; verdict: string }[] };
    return { code, failed: cases.filter(({ verdict }) => verdict === "failed").map(({ name }) => name) };
  };
  const counted = ["--effects-url", `${server.url}/effects?key={key}`];
  const bodies = ["--body", '{"amount":1}', "--other-body", '{"amount":2}'];
  expect((await check(...counted, "--keeps-failures")).failed).toContain("replay");
  expect(await check(...counted, ...bodies)).toEqual({ code: 1, failed: ["failing"] });
  expect(await check(...counted, ...bodies, "--keeps-failures")).toEqual({ code: 0, failed: [] });
  twice = true;
  expect(await check(...counted, ...bodies, "--keeps-failures")).toEqual({ code: 1, failed: ["effects"] });
  for (const wrong of [
    ["--body", "{"],
    ["--other-body", "{}"],
    ["--effects-url", "http://127.0.0.1:9/"],
  ])
    expect(await onceflow(["conformance", "http", "http://127.0.0.1:9/", ...wrong])).toMatchObject({ code: 2 });
});
