import type { InvalidInputError } from "onceflow";
import { type ApiCaller, type ApiRole, createApi } from "onceflow/server";
import { describe, expect, test } from "vitest";
import { apiScene, document, root, routes } from "./scene.js";

const silent = { onError: () => {} };
const pathOf = (path: string): string => `http://localhost${path}`;

describe("authorize", () => {
  test("is required", async () => {
    const { store } = await apiScene();
    for (const authorize of [undefined, null, "token", {}])
      expect(() => createApi({ store, authorize } as never)).toThrow(expect.objectContaining({ field: "authorize" }) as InvalidInputError);
    expect(() => createApi({ store, authorise: () => null } as never)).toThrow('did you mean "authorize"?');
  });

  test("that returns rubbish, or throws, gives nobody anything", async () => {
    const wrong: unknown[] = [
      true,
      "root",
      {},
      { ...root, actor: undefined },
      { ...root, actor: "" },
      { ...root, actor: "a".repeat(3000) },
      { ...root, roles: undefined },
      { ...root, roles: "view" },
      { ...root, roles: ["view", "root"] },
      { ...root, roles: [["view"]] },
      { ...root, scopes: undefined },
      { ...root, scopes: "all" },
      { ...root, scopes: [1] },
      { ...root, scopes: ["*\n"] },
      Promise.resolve("root"),
    ];
    for (const answer of wrong) {
      const reported: unknown[] = [];
      const { get } = await apiScene({ authorize: () => answer as ApiCaller, onError: (error) => reported.push(error) });
      expect(await get("/keys"), JSON.stringify(answer)).toMatchObject({ status: 500, body: { code: "INTERNAL" } });
      expect(reported).toHaveLength(1);
    }
    for (const authorize of [
      () => Promise.reject(new Error("secret: ldap://10.0.0.1")),
      () => {
        throw new Error("secret");
      },
    ]) {
      const { get } = await apiScene({ authorize, ...silent });
      const answer = await get("/keys");
      expect(answer.status).toBe(500);
      expect(JSON.stringify(answer.body)).not.toContain("secret");
    }
  });

  test("that does not answer is given up", async () => {
    const { get } = await apiScene({ authorize: () => new Promise<never>(() => {}), authorizeMsMax: 20 });
    expect(await get("/keys")).toMatchObject({ status: 503, body: { code: "AUTHORIZE_TIMEOUT" } });
  });

  test("cannot take the body from the route", async () => {
    const { post } = await apiScene({
      authorize: async (request) => {
        await request.text();
        return root;
      },
    });
    expect(await post("/keys/begin", { key: "k" })).toMatchObject({ status: 200 });
  });

  test("that knows nobody: every route answers 401", async () => {
    const { send } = await apiScene({ authorize: () => null });
    for (const { method, path } of [...routes, { method: "GET", path: "/openapi.json" }])
      expect(await send(new Request(pathOf(path), { method })), path).toMatchObject({ status: 401, body: { code: "UNAUTHORIZED" } });
  });
});

describe("roles", () => {
  test("every route refuses a caller without its role, whatever else the caller may do", async () => {
    const scene = await apiScene();
    for (const { id, method, path, role, needsValues } of routes) {
      for (const missing of [role, ...(needsValues ? (["values"] as const) : [])] as ApiRole[]) {
        scene.caller = { ...root, roles: root.roles.filter((each) => each !== missing) };
        const answer = await scene.send(new Request(pathOf(path), { method }));
        expect(answer, id).toMatchObject({
          status: 403,
          body: { code: "ROLE_MISSING", detail: expect.stringContaining(missing) as string },
        });
      }
    }
  });

  test("every route that changes something needs work or operate, and is refused by a read-only API", async () => {
    const { send } = await apiScene({ readOnly: true });
    for (const { method, path, role } of routes) {
      // Hooks are listed with their tokens, which are for those that deliver.
      if (method === "GET") expect(role, path).toBe(path === "/hooks" ? "work" : "view");
      else expect(["work", "operate"], path).toContain(role);
      if (method === "POST") expect(await send(new Request(pathOf(path), { method })), path).toMatchObject({ body: { code: "READ_ONLY" } });
    }
  });

  test("without the role values no answer has one", async () => {
    const scene = await apiScene();
    const { post, get } = scene;
    const settle = async (name: string, end: object) => {
      const { owner, attempt } = (await post("/keys/begin", { key: name, input: "secret" })).body;
      await post("/keys/settle", { key: name, owner, attempt, ...end });
    };
    await settle("ok", { completed: "secret" });
    await settle("bad", { failed: { name: "CardError", message: "secret" } });
    await post("/runs/start", { workflow: "w", args: ["secret"], id: "r" });
    scene.caller = { ...root, roles: ["view", "work", "operate"] };
    const answers = [
      await get("/key", { key: "ok" }),
      await get("/key", { key: "bad" }),
      await post("/keys/begin", { key: "ok", input: "secret" }),
      await post("/keys/begin", { key: "bad", input: "secret" }),
      await get("/run", { id: "r" }),
    ];
    for (const { status, body } of answers) {
      expect(status).toBe(200);
      expect(JSON.stringify(body)).toContain('"values":"hidden"');
      expect(JSON.stringify(body)).not.toContain("secret");
    }
    expect(JSON.stringify((await get("/keys")).body)).not.toContain("fingerprint");
  });
});

describe("requests", () => {
  test("an actor in the request is refused", async () => {
    const { post, get } = await apiScene();
    for (const { method, path } of routes) {
      const answer = method === "POST" ? await post(path, { actor: "root" }) : await get(path, { actor: "root" });
      expect(answer, path).toMatchObject({ status: 400, body: { detail: expect.stringContaining("actor") as string } });
    }
  });

  test("bodies of forms, texts and without a type are refused, so no page of another site can send them", async () => {
    const { send, store } = await apiScene();
    const body = JSON.stringify({ key: "k" });
    const types = [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data",
      "application/json-seq",
      "text/json; application/json",
    ];
    for (const type of types) {
      const request = new Request(pathOf("/keys/begin"), { method: "POST", body, headers: { "content-type": type } });
      expect(await send(request), type).toMatchObject({ status: 415 });
    }
    expect(await send(new Request(pathOf("/keys/begin"), { method: "POST", body: new Blob([body]) }))).toMatchObject({ status: 415 });
    const zipped = { "content-type": "application/json", "content-encoding": "gzip" };
    expect(await send(new Request(pathOf("/keys/begin"), { method: "POST", body, headers: zipped }))).toMatchObject({ status: 415 });
    expect(await store.read({ scope: "", key: "k" })).toBeUndefined();
  });

  test("pages of other origins can neither read nor write", async () => {
    const { post, send } = await apiScene();
    for (const origin of ["https://evil.example", "null", "http://localhost.evil.example", "http://localhost:1"])
      expect(await post("/keys/begin", { key: "k" }, { origin }), origin).toMatchObject({ status: 403, body: { code: "ORIGIN_REFUSED" } });
    for (const site of ["cross-site", "same-site"])
      expect(await send(new Request(pathOf("/keys"), { headers: { "sec-fetch-site": site } }))).toMatchObject({ status: 403 });
    expect(await post("/keys/begin", { key: "k" }, { origin: "http://localhost" })).toMatchObject({ status: 200 });
    expect((await post("/keys/begin", { key: "k2" })).headers.get("access-control-allow-origin")).toBeNull();
  });

  test("bodies that are too long, too deep, too slow or not JSON are refused", async () => {
    const { post, send } = await apiScene({ bodyBytesMax: 1000, bodyMsMax: 30 });
    expect(await post("/keys/begin", { key: "k".repeat(2000) })).toMatchObject({ status: 413, body: { code: "BODY_TOO_LONG" } });
    for (const body of ["", "{", "[]", "null", "1", '"x"', `{"key":"k","input":${"[".repeat(200)}${"]".repeat(200)}}`, "{}\u0000"])
      expect(await post("/keys/begin", body), body).toMatchObject({ status: 400 });
    const drip = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode('{"key"')),
      pull: () => new Promise<void>(() => {}),
    });
    const slow = new Request(pathOf("/keys/begin"), {
      method: "POST",
      body: drip,
      headers: { "content-type": "application/json" },
      duplex: "half",
    } as RequestInit);
    expect(await send(slow)).toMatchObject({ status: 400, body: { detail: expect.stringContaining("did not arrive") as string } });
    const endless = new Request(pathOf("/keys/begin"), {
      method: "POST",
      body: new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(new Uint8Array(400).fill(32)) }),
      headers: { "content-type": "application/json" },
      duplex: "half",
    } as RequestInit);
    expect(await send(endless)).toMatchObject({ status: 413 });
  });

  test("members called __proto__ and constructor change nothing but the request that has them", async () => {
    const { post, get } = await apiScene();
    const pollution = '{"polluted":true}';
    for (const { method, path } of routes) {
      if (method !== "POST") continue;
      for (const name of ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty"])
        expect(await post(path, `{"${name}":${pollution}}`), `${path} ${name}`).toMatchObject({ status: 400 });
    }
    const begin = await post("/keys/begin", `{"key":"k","input":{"__proto__":${pollution}}}`);
    expect([200, 400]).toContain(begin.status);
    const other = (await post("/keys/begin", { key: "v" })).body;
    await post("/keys/settle", `{"key":"v","owner":"${String(other["owner"])}","attempt":1,"completed":{"__proto__":${pollution},"a":1}}`);
    await get("/key", { key: "v" });
    await post("/keys/resolve", `{"key":"v","attempt":1,"reason":"r","as":{"__proto__":${pollution}}}`);
    await post("/runs/start", `{"workflow":"w","args":[{"__proto__":${pollution}}],"attributes":{"__proto__":"x"}}`);
    await get("/runs", { attribute: `{"name":"a","value":1,"__proto__":${pollution}}` });
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  test("no input becomes a header, a line of a log, or a detail that echoes without limit", async () => {
    const { post, get } = await apiScene();
    const evil = "x\r\nset-cookie: a=b";
    for (const answer of [await get("/key", { key: evil }), await get("/run", { id: evil }), await post("/keys/begin", { key: evil })]) {
      expect(answer.headers.get("set-cookie")).toBeNull();
      expect([400, 404]).toContain(answer.status);
    }
    const long = await get("/keys", { state: "y".repeat(100_000) });
    expect(JSON.stringify(long.body).length).toBeLessThan(2000);
    const name = await get("/keys", { ["z".repeat(50_000)]: "1" });
    expect(name.status).toBe(400);
    expect(JSON.stringify(name.body).length).toBeLessThan(2000);
  });

  test("paths and methods that do not exist are refused", async () => {
    const { send, get } = await apiScene();
    for (const path of ["/nothing", "/keys/", "/keys/..%2fruns", "//keys"]) expect((await get(path)).status, path).toBe(404);
    const wrong = await send(new Request(pathOf("/keys/begin"), { method: "DELETE" }));
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "POST"]);
    expect(await get("/keys", {})).toMatchObject({ status: 200 });
    expect(await send(new Request(`${pathOf("/keys")}?limit=1&limit=2`))).toMatchObject({ status: 400, body: { field: "limit" } });
  });

  test("an unexpected error is reported on the server only", async () => {
    const reported: unknown[] = [];
    const { get, store } = await apiScene({ onError: (error) => reported.push(error) });
    Object.assign(store, { list: () => Promise.reject(new Error("secret: db.internal:5432")) });
    const answer = await get("/keys");
    expect(answer).toMatchObject({ status: 500, body: { code: "INTERNAL" } });
    expect(JSON.stringify(answer.body)).not.toContain("secret");
    expect(reported).toHaveLength(1);
  });
});

test("every response has headers that mark it as data", async () => {
  const { get } = await apiScene();
  for (const path of ["/keys", "/nothing", "/openapi.json", "/key"]) {
    const { headers } = await get(path);
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("cache-control")).toBe("no-store");
  }
});

test("the document has every route with its inputs, and names no actor", async () => {
  const { get } = await apiScene();
  expect((await get("/openapi.json")).body).toEqual(JSON.parse(JSON.stringify(document)));
  const ids = routes.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { path, method, fields } of routes) {
    expect(document.paths[path]?.[method === "GET" ? "get" : "post"], path).toBeDefined();
    expect(Object.keys(fields)).not.toContain("actor");
  }
});
