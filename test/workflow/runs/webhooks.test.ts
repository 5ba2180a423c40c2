import { configure, InvalidInputError, type Store } from "onceflow";
import { EffectLedger } from "onceflow/testing";
import {
  ContextError,
  createHook,
  createWebhook,
  getStepMetadata,
  HookConflictError,
  HookNotFoundError,
  type RequestWithResponse,
  step,
  workflow,
} from "onceflow/workflow";
import { getHookByToken, getRun, readJournal, resumeHook, resumeWebhook, start, webhookHandler } from "onceflow/workflow/api";
import { expect, test as plain } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { settled, until } from "../../kit/until.js";
import { story, untilReleased, untilStatus } from "../scene.js";

const post = (url: string, body: string | ReadableStream | null = null, headers: Record<string, string> = {}) =>
  new Request(url, { method: "POST", body, headers, ...(body instanceof ReadableStream ? { duplex: "half" } : {}) } as RequestInit);

/** A step that publishes the URL, as an application gives it to a third party. */
function publishedUrl() {
  const published = gate<string>();
  return { url: published.opened, publish: step("publish", async (url: string) => published.open(url)) };
}

onStores("webhooks", everyStore, (test) => {
  test("a request resumes the run: 202, and the code gets method, headers and body", async ({ scene }) => {
    const { url, publish } = publishedUrl();
    const order = workflow(scene.name("order"), async () => {
      const webhook = createWebhook();
      await publish(webhook.url);
      const request = await webhook;
      return [request.method, request.headers.get("x-event"), await request.json(), new URL(request.url).pathname];
    });
    const { store } = await scene.work();
    const run = await start(order, [], { store });
    const target = await url;
    const response = await webhookHandler(store)(post(target, '{"paid":true}', { "x-event": "e-1" }));
    expect([response.status, await response.text()]).toEqual([202, ""]);
    expect(await run.returnValue).toEqual(["POST", "e-1", { paid: true }, new URL(target).pathname]);
  });

  test("the token has at least 128 bits, and the stored hooks do not show it", async ({ scene }) => {
    const { url, publish } = publishedUrl();
    const order = workflow(scene.name("order"), async () => {
      const webhook = createWebhook();
      await publish(webhook.url);
      await webhook;
    });
    const { store } = await scene.work();
    await start(order, [], { store });
    const token = (await url).split("/").at(-1) ?? "";
    expect(Buffer.from(token, "base64url").length).toBeGreaterThanOrEqual(16);
    expect(await store.runs.hook(token)).toBeUndefined();
  });

  test("a static response keeps its status, headers and bytes", async ({ scene }) => {
    const order = workflow(scene.name("order"), async () => {
      const bytes = new Uint8Array([0, 1, 254, 255]);
      const respondWith = new Response(bytes, { status: 201, headers: { "x-kept": "yes", "content-type": "image/png" } });
      using webhook = createWebhook({ token: "static token 1", respondWith });
      const seen: string[] = [];
      for await (const request of webhook) {
        seen.push(await request.text());
        if (seen.length === 2) break;
      }
      return seen;
    });
    const { store } = await scene.work();
    const run = await start(order, [], { store });
    const answers = [];
    for (const text of ["one", "two"]) answers.push(await resumeWebhook("static token 1", post("http://shop.example/x", text), { store }));
    for (const answer of answers) {
      expect([answer.status, answer.headers.get("x-kept"), answer.headers.get("content-type")]).toEqual([201, "yes", "image/png"]);
      expect(new Uint8Array(await answer.arrayBuffer())).toEqual(new Uint8Array([0, 1, 254, 255]));
    }
    expect(await run.returnValue).toEqual(["one", "two"]);
  });

  test("nothing is journaled while the static response is read, so a crash then leaves nothing behind", async ({ scene }) => {
    const [reading, free] = [gate(), gate()];
    const slow = () =>
      new ReadableStream({
        async pull(controller) {
          reading.open();
          await free.opened;
          controller.enqueue(new TextEncoder().encode("slow"));
          controller.close();
        },
      });
    const note = step("note", async () => "noted");
    const order = workflow(scene.name("order"), async () => {
      const noted = await note();
      const webhook = createWebhook({ token: "slow", respondWith: new Response(slow()) });
      return [noted, await (await webhook).text()];
    });
    const doomed = await scene.workAndDie({ workflows: [order] });
    const store = await scene.open();
    const run = await start(order, [], { store: doomed.store });
    await reading.opened;
    await settled();
    expect(await story(store, run.id)).toEqual(["step note#0"]);
    doomed.die();
    free.open();
    await scene.work({ pollMs: 100, workflows: [order] }, store);
    await until("the webhook is there", async () => await getHookByToken("slow", { store }).catch(() => undefined));
    const answer = await resumeWebhook("slow", post("http://shop.example/", "x"), { store });
    expect(await answer.text()).toBe("slow");
    expect(await getRun(run.id, { store }).returnValue).toEqual(["noted", "x"]);
  });

  test("a released run answers with its static response, and its replay makes the same webhook", async ({ scene }) => {
    const order = workflow(scene.name("order"), async () => {
      const webhook = createWebhook({ token: "released", respondWith: Response.json({ ok: 1 }), metadata: { order: 7 } });
      const request = await webhook;
      return [webhook.url, await request.text()];
    });
    const { store } = await scene.work();
    const run = await start(order, [], { store });
    await untilReleased(store, run.id);
    expect(await getHookByToken("released", { store })).toMatchObject({ runId: run.id, metadata: { order: 7 } });
    const answer = await resumeWebhook("released", post("http://shop.example/"), { store });
    expect(await answer.json()).toEqual({ ok: 1 });
    expect(await run.returnValue).toEqual(["http://localhost:3000/.well-known/onceflow/webhook/released", ""]);
  });

  test("manual: a step answers, and the sender waits for it", async ({ scene }) => {
    const answer = step("answer", async (request: RequestWithResponse) => {
      const { sum } = (await request.json()) as { sum: number };
      await request.respondWith(Response.json({ doubled: sum * 2 }, { status: 203, headers: { "x-by": getStepMetadata().stepId } }));
    });
    const order = workflow(scene.name("order"), async () => {
      const webhook = createWebhook({ token: "manual", respondWith: "manual" });
      await answer(await webhook);
    });
    const { store } = await scene.work();
    const run = await start(order, [], { store });
    const response = await resumeWebhook("manual", post("http://shop.example/", '{"sum":21}'), { store });
    expect([response.status, await response.json()]).toEqual([203, { doubled: 42 }]);
    expect(response.headers.get("x-by")).toMatch(/^step_/);
    await run.returnValue;
  });

  test("manual: the first answer counts, even if the step that gave it is run again", async ({ scene }) => {
    let attempts = 0;
    const answer = step("answer", async (request: RequestWithResponse) => {
      attempts += 1;
      await request.respondWith(new Response(`attempt ${attempts}, body ${await request.text()}`));
      if (attempts < 3) throw new Error("after the answer");
    });
    answer.options = { backoff: { minMs: 1 } };
    const order = workflow(scene.name("order"), async () => await answer(await createWebhook({ token: "first", respondWith: "manual" })));
    const { store } = await scene.work();
    const run = await start(order, [], { store });
    const response = await resumeWebhook("first", post("http://shop.example/", "b"), { store });
    expect(await response.text()).toBe("attempt 1, body b");
    await run.returnValue;
    expect(attempts).toBe(3);
  });

  test("if the process dies after it has consumed the request, the next owner has it and the sender gets its answer", async ({ scene }) => {
    const effects = new EffectLedger({ honoursKeys: true });
    const called = gate();
    const answer = step("answer", async (request: RequestWithResponse) => {
      const { stepId, attempt } = getStepMetadata();
      effects.call("answer", { attempt, result: stepId });
      if (attempt === 1) {
        called.open();
        return await new Promise<never>(() => {});
      }
      await request.respondWith(new Response(`attempt ${attempt} heard ${await request.text()}`));
    });
    const order = workflow(scene.name("order"), async () => {
      const webhook = createWebhook({ token: "mortal", respondWith: "manual" });
      const request = await webhook;
      await answer(request);
      return request.method;
    });
    const doomed = await scene.workAndDie({ workflows: [order] });
    const store = await scene.open();
    const run = await start(order, [], { store: doomed.store });
    const response = resumeWebhook("mortal", post("http://shop.example/", "hello"), { store });
    await called.opened;
    doomed.die();
    await scene.work({ pollMs: 100, workflows: [order] }, store);
    expect(await (await response).text()).toBe("attempt 2 heard hello");
    expect(await getRun(run.id, { store }).returnValue).toBe("POST");
    expect(effects.calls("answer").map(({ attempt }) => attempt)).toEqual([1, 2]);
  });

  test("manual: no answer in time is 504, an end without an answer is 502; the request is consumed in both cases", async ({ scene }) => {
    const free = gate();
    const wait = step("wait", async () => await free.opened);
    const order = workflow(scene.name("order"), async () => {
      const webhook = createWebhook({ token: "silent", respondWith: "manual" });
      const first = await (await webhook).text();
      const second = await (await webhook).text();
      await wait();
      return [first, second];
    });
    const { store } = await scene.work();
    const run = await start(order, [], { store });
    const handle = webhookHandler(store, { answerMs: 20 });
    const late = await handle(post("http://shop.example/silent", "a"));
    expect([late.status, ((await late.json()) as { code: string }).code]).toEqual([504, "NOT_ANSWERED_YET"]);
    const waiting = resumeWebhook("silent", post("http://shop.example/", "b"), { store });
    await until("both are taken in", async () => (await readJournal(run.id, { store })).filter(({ type }) => type === "got").length === 2);
    free.open();
    expect((await waiting).status).toBe(502);
    expect(await run.returnValue).toEqual(["a", "b"]);
  });

  test("the same delivery twice at once is consumed once, and both senders get the same answer", async ({ scene }) => {
    const answer = step("answer", async (request: RequestWithResponse) => {
      await request.respondWith(new Response(await request.text()));
    });
    const order = workflow(scene.name("order"), async () => {
      const webhook = createWebhook({ token: "twice", respondWith: "manual" });
      await answer(await webhook);
      const next = await webhook;
      await answer(next);
      return await next.text();
    });
    const { store } = await scene.work();
    const run = await start(order, [], { store });
    await untilStatus(store, run.id, "running");
    const handle = webhookHandler(store, { key: (request) => request.headers.get("x-id") });
    const send = (body: string, id: string) => handle(post("http://shop.example/hooks/twice", body, { "x-id": id }));
    const both = await Promise.all([send("first", "1"), send("first", "1")]);
    expect(await Promise.all(both.map((response) => response.text()))).toEqual(["first", "first"]);
    expect(await (await send("other", "2")).text()).toBe("other");
    expect(await run.returnValue).toBe("other");
  });

  test("an unknown token, a disposed webhook, an ended run and the token of a plain hook are 404", async ({ scene }) => {
    const go = createGo(scene.name("go"));
    const { store } = await scene.work();
    const run = await start(go, [], { store });
    const handle = webhookHandler(store);
    const status = async (token: string) => (await handle(post(`http://shop.example/${token}`))).status;
    await until("its hooks exist", async () => (await status("open")) === 202);
    expect([await status("missing"), await status("gone"), await status("plain"), await status(""), await status("%E0%A4%A")]).toEqual([
      404, 404, 404, 404, 404,
    ]);
    await expect(resumeWebhook("missing", post("http://shop.example/"), { store })).rejects.toBeInstanceOf(HookNotFoundError);
    await resumeHook("plain", "over", { store });
    expect(await run.returnValue).toBe("over");
    expect(await status("open")).toBe(404);
  });

  test("a webhook cannot be resumed as a plain hook by its token", async ({ scene }) => {
    const order = workflow(scene.name("order"), async () => await (await createWebhook({ token: "both" })).text());
    const { store } = await scene.work();
    const run = await start(order, [], { store });
    await untilStatus(store, run.id, "running");
    await expect(resumeHook("both", "x", { store })).rejects.toBeInstanceOf(HookNotFoundError);
    await run.cancel();
  });

  test("a body over the limit is refused with 413, with or without a content length, and is not consumed", async ({ scene }) => {
    const order = workflow(scene.name("order"), async () => await (await createWebhook({ token: "bounded" })).text());
    const { store } = await scene.work();
    const run = await start(order, [], { store });
    await untilStatus(store, run.id, "running");
    const handle = webhookHandler(store, { bodyBytesMax: 10 });
    expect((await handle(post("http://shop.example/bounded", "x".repeat(11)))).status).toBe(413);
    let pulled = 0;
    const endless = new ReadableStream({
      pull(controller) {
        pulled += 1;
        controller.enqueue(new Uint8Array(4));
      },
    });
    expect((await handle(post("http://shop.example/bounded", endless))).status).toBe(413);
    expect(pulled).toBeLessThan(10);
    expect((await handle(post("http://shop.example/bounded", "0123456789"))).status).toBe(202);
    expect(await run.returnValue).toBe("0123456789");
  });

  test("of two webhooks with one token the second is in conflict", async ({ scene }) => {
    const [waits, second] = [gate(), gate<unknown>()];
    const hold = step("hold", async () => waits.open());
    const first = workflow(scene.name("first"), async () => {
      const webhook = createWebhook({ token: "same" });
      await hold();
      await webhook;
    });
    const other = workflow(scene.name("second"), async () => {
      const conflict = await createWebhook({ token: "same" }).getConflict();
      second.open(conflict);
      return conflict?.code;
    });
    const { store } = await scene.work();
    const run = await start(first, [], { store });
    await waits.opened;
    expect(await (await start(other, [], { store })).returnValue).toBe("HOOK_CONFLICT");
    expect(await second.opened).toBeInstanceOf(HookConflictError);
    await run.cancel();
  });

  test("a static response that cannot be stored fails the run, and no webhook is made", async ({ scene }) => {
    const long = workflow(scene.name("long"), async () => {
      const webhook = createWebhook({ token: "long", respondWith: new Response("x".repeat(70_000)) });
      await webhook;
    });
    const { store } = await scene.work();
    const run = await start(long, [], { store });
    await expect(run.returnValue).rejects.toThrow(/respondWith: .*more than 65536 bytes/);
    expect((await webhookHandler(store)(post("http://shop.example/long"))).status).toBe(404);
  });

  test("respondWith outside of a step, or without a waiting sender, throws an error that says so", async ({ scene }) => {
    const answer = step("answer", async (request: Request) => await (request as RequestWithResponse).respondWith(new Response()));
    answer.maxRetries = 0;
    const inCode = workflow(scene.name("in code"), async () => {
      await (await createWebhook({ token: "in code", respondWith: "manual" })).respondWith(new Response());
    });
    const answered = workflow(scene.name("answered"), async () => await answer(await createWebhook({ token: "answered" })));
    const { store } = await scene.work();
    const runs = [await start(inCode, [], { store }), await start(answered, [], { store })];
    for (const token of ["in code", "answered"]) {
      await until(`"${token}" is there`, async () => await getHookByToken(token, { store }).catch(() => undefined));
      await webhookHandler(store, { answerMs: 0 })(post(`http://shop.example/${token}`));
    }
    await expect(runs[0]?.returnValue).rejects.toThrow("request.respondWith() can only be used in a step");
    await expect(runs[1]?.returnValue).rejects.toThrow('respondWith: "manual"');
  });
});

function createGo(name: string) {
  return workflow(name, async () => {
    const plain = createHook<string>({ token: "plain" });
    createWebhook({ token: "gone" }).dispose();
    void createWebhook({ token: "open" });
    return await plain;
  });
}

plain("createWebhook outside of a workflow, and invalid options, throw", async () => {
  expect(() => createWebhook()).toThrow(ContextError);
  expect(() => webhookHandler(undefined, { bodyBytesMax: -1 })).toThrow(InvalidInputError);
  expect(() => webhookHandler(undefined, { answerMs: Number.NaN })).toThrow(InvalidInputError);
  expect(() => configure({ publicUrl: "shop.example" })).toThrow(/publicUrl: must be an http\(s\) URL/);
});

plain("an unreachable store is 503 with Retry-After, an unknown failure is 500, and neither response shows internal details", async () => {
  const { UnreachableError } = await import("onceflow");
  const failing = (error: Error) =>
    ({ commit: () => Promise.reject(error), runs: { hook: () => Promise.reject(error) } }) as unknown as Store;
  const away = await webhookHandler(failing(new UnreachableError("postgres://user:secret@host")))(post("http://shop.example/t"));
  expect([away.status, away.headers.get("retry-after")]).toEqual([503, "1"]);
  const broken = await webhookHandler(failing(new Error("secret")))(post("http://shop.example/t"));
  expect(broken.status).toBe(500);
  expect((await away.text()) + (await broken.text())).not.toContain("secret");
});
