import { userInfo } from "node:os";
import type { Store } from "onceflow";
import { key, once } from "onceflow";
import { createHook, FatalError, sleep, step, workflow } from "onceflow/workflow";
import { readJournal, start } from "onceflow/workflow/api";
import { afterEach, beforeEach, expect, vi } from "vitest";
import { onStoresInTurn, type Scene } from "../kit/scene.js";
import { untilReleased, untilStatus } from "../workflow/scene.js";
import { serveApi } from "./api-server.js";
import { command, json } from "./command.js";

const ways = ["--store", "--url"] as const;
type Way = (typeof ways)[number];

const charges: string[] = [];
const charge = step("charge", async (): Promise<string> => {
  charges.push("charge");
  throw new FatalError("the bank is down");
});

async function startFailed(scene: Scene, store: Store, id = "r-1"): Promise<void> {
  await start(
    workflow(scene.name("failing"), async () => await charge()),
    [],
    { id, store },
  );
  await untilStatus(store, id, "failed");
}

async function startWaiting(scene: Scene, store: Store, id = "r-1"): Promise<void> {
  const waiting = workflow(scene.name("waiting"), async () => {
    const hook = createHook<string>({ token: `token ${id}` });
    await sleep("8 hours");
    return await hook;
  });
  await start(waiting, [], { id, store });
  await untilReleased(store, id);
}

/** An action, and the run that it makes sense for. */
interface Case {
  readonly name: string;
  readonly prepare: typeof startFailed;
  readonly args: (store: Store) => Promise<readonly string[]> | readonly string[];
  readonly says: RegExp;
  readonly status?: string;
  readonly needsReason?: boolean;
  readonly needsYes?: boolean;
}

async function failedStep(store: Store): Promise<string> {
  const journal = await readJournal("r-1", { store });
  return journal.find(({ type }) => type === "fail")?.stepId ?? "";
}

const cases: readonly Case[] = [
  { name: "cancel", prepare: startWaiting, args: () => ["r-1"], says: /^r-1 {2}has ended/, status: "cancelled" },
  {
    name: "terminate",
    prepare: startWaiting,
    args: () => ["r-1"],
    says: /^r-1 {2}has ended/,
    status: "cancelled",
    needsReason: true,
    needsYes: true,
  },
  { name: "pause", prepare: startWaiting, args: () => ["r-1", "--wait", "0s"], says: /^r-1 {2}pause requested/ },
  { name: "resume", prepare: startWaiting, args: () => ["r-1"], says: /^r-1 {2}resumed/ },
  { name: "wake", prepare: startWaiting, args: () => ["r-1"], says: /^r-1 {2}woken; sleeps that were ended: 1/ },
  { name: "retry", prepare: startFailed, args: () => ["r-1"], says: /^r-1 {2}runs again: charge#0/, status: "running" },
  {
    name: "fork",
    prepare: startFailed,
    args: () => ["r-1", "--from", "charge#0", "--id", "f-1"],
    says: /^r-1 {2}forked to f-1/,
    status: "failed",
  },
  {
    name: "delete",
    prepare: startFailed,
    args: () => ["r-1"],
    says: /^r-1 {2}deleted \(it was failed\)/,
    needsReason: true,
    needsYes: true,
  },
  {
    name: "resolve",
    prepare: startFailed,
    args: async (store) => ["r-1", await failedStep(store), "--attempt", "1", "--completed", '"in cash"'],
    says: /^r-1 {2}step resolved as completed/,
    status: "running",
    needsReason: true,
  },
  { name: "deliver", prepare: startWaiting, args: () => ["token r-1", '{"approved":true}'], says: /^r-1 {2}delivered/ },
];

/** The options that say where the command acts, and the actor that the log then has. */
async function wayTo(way: Way, scene: Scene, store: Store): Promise<{ readonly where: readonly string[]; readonly actor: string }> {
  if (way === "--store") return { where: ["--store", scene.url], actor: userInfo().username };
  const server = await serveApi(store);
  scene.onEnd(() => server.close());
  return { where: ["--url", server.url], actor: "ada" };
}

beforeEach(() => void vi.stubEnv("ONCEFLOW_TOKEN", "t-1"));
afterEach(() => void vi.unstubAllEnvs());

onStoresInTurn("the command line acts on a run", ["sqlite"], (test) => {
  for (const way of ways)
    for (const { name, prepare, args, says, status, needsReason, needsYes } of cases)
      test(`${name} by ${way}: a dry run does nothing, done twice it is done once`, async ({ scene }) => {
        const { store, worker } = await scene.work({});
        await prepare(scene, store);
        await worker.stop();
        const { where, actor } = await wayTo(way, scene, store);
        const line = ["runs", name, ...(await args(store)), ...where];
        const seen = async () => [await store.runs.read("r-1"), await store.runs.log({ limit: 10 }), await store.runs.mail("r-1", 0)];
        const before = await seen();

        const reason = ["--reason", "test"];
        const dry = await command(...line, ...reason, "--dry-run");
        expect(dry).toMatchObject({ code: 0, out: expect.stringMatching(/dry run, nothing was done|has ended/) as string });
        if (needsReason)
          expect(await command(...line, "--yes")).toMatchObject({ code: 2, err: expect.stringMatching(/^reason: is missing/) as string });
        if (needsYes)
          expect(await command(...line, ...reason)).toMatchObject({ code: 2, err: expect.stringMatching(/^yes: this would/) as string });
        if (name !== "deliver")
          expect(await command(...line, ...reason, ...(needsYes ? ["--yes"] : []), "--if-status", "parked")).toMatchObject({
            code: 1,
            out: "",
          });
        expect(await seen()).toEqual(before);

        const done = [...line, ...reason, ...(needsYes ? ["--yes"] : []), "--action-id", "a-1"];
        const first = await command(...done);
        expect(first).toMatchObject({ code: 0, out: expect.stringMatching(says) as string });
        if (status !== undefined) expect((await store.runs.read("r-1"))?.status).toBe(status);
        const after = await seen();
        const again = await json<{ repeated: boolean }>(...done);
        if (name !== "wake") expect(again.repeated).toBe(true);
        expect(await seen()).toEqual(after);
        expect(await store.runs.log({ limit: 10 })).toMatchObject([{ id: "a-1", actor, action: name, subject: "r-1", reason: "test" }]);
        const log = await command("log", ...where);
        expect(log.out).toMatch(new RegExp(`^NO +AT +ACTOR .*\\n\\d+ .*Z +${actor} +${name} +r-1 +test +a-1\\n`));
      });

  for (const way of ways)
    test(`start, list, show and count by ${way}`, async ({ scene }) => {
      const { store, worker } = await scene.work({});
      await startFailed(scene, store);
      await startWaiting(scene, store, "r-2");
      await worker.stop();
      const { where } = await wayTo(way, scene, store);
      const started = await command("runs", "start", "order", '["o-1"]', "--id", "o-1", ...where);
      expect(started).toMatchObject({ code: 0, out: "o-1\n" });
      expect(await command("runs", "start", "order", '["o-2"]', "--id", "o-1", ...where)).toMatchObject({ code: 1, out: "" });
      expect(await command("runs", "start", "order", "{}", ...where)).toMatchObject({
        code: 2,
        err: expect.stringMatching(/^args: must be/) as string,
      });
      const listed = await command("runs", "list", ...where);
      expect(listed.out).toMatch(
        /^ID +WORKFLOW +STATUS +CREATED +ENDED +TROUBLE\no-1 +order +pending +\S+ \S+Z\nr-2 .*\nr-1 +failing \d+ +failed /,
      );
      expect((await command("runs", "list", "--status", "pending", "--limit", "1", ...where)).out.split("\n").length).toBe(3);
      expect((await command("runs", "--workflow", "order", ...where)).out).toMatch(/\no-1 /);
      expect(await json("runs", "list", "--count", ...where)).toMatchObject({ failed: { count: 1 }, pending: { count: 1 } });
      const shown = await command("runs", "show", "r-1", ...where);
      expect(shown.out).toMatch(/error +FatalError: FATAL: the bank is down\n/);
      expect(shown.out).toMatch(/\n1 +\S+ \S+Z +step +1 +charge#0\n/);
      expect(shown.out).not.toContain("o-1");
      expect((await command("runs", "show", "o-1", "--values", ...where)).out).toMatch(/arguments +\["o-1"\]/);
      expect((await command("runs", "show", "o-1", ...where)).out).not.toContain('["o-1"]');
      expect((await command("workers", ...where)).out).toMatch(/^ID +STATE /);
    });

  for (const way of ways)
    test(`the filters of the list, by ${way}`, async ({ scene }) => {
      const { store, worker } = await scene.work({});
      await startFailed(scene, store);
      await worker.stop();
      const { where } = await wayTo(way, scene, store);
      const more = ["--scope", "acme", "--attribute", "customer=c-17", "--attribute", "priority=2", "--timeout", "1h"];
      expect(await command("runs", "start", "order", "--id", "o-1", ...more, ...where)).toMatchObject({ code: 0 });
      expect((await command("runs", "show", "o-1", ...where)).out).toMatch(
        /\nscope +acme\n[\s\S]*attributes +\{"customer":"c-17","priority":2\}/,
      );
      const found = async (...filter: string[]) => {
        const { items } = await json<{ items: { id: string }[] }>("runs", "list", ...filter, ...where);
        return items.map(({ id }) => id);
      };
      expect(await found("--scope", "acme")).toEqual(["o-1"]);
      expect(await found("--attribute", "customer=c-17")).toEqual(["o-1"]);
      expect(await found("--attribute", "priority=2")).toEqual(["o-1"]);
      expect(await found("--attribute", 'priority="2"')).toEqual([]);
      expect(await found("--error-name", "FatalError")).toEqual(["r-1"]);
      expect(await found("--error-code", "FATAL")).toEqual(["r-1"]);
      expect(await found("--id-prefix", "o-")).toEqual(["o-1"]);
      expect(await found("--created-after", "1h")).toEqual(["o-1", "r-1"]);
      expect(await found("--created-before", "1h")).toEqual([]);
      expect(await found("--ended-after", "2020-01-01T00:00Z")).toEqual(["r-1"]);
      expect(await found("--needs-person")).toEqual([]);
      expect((await command("runs", "list", "--scope", "acme", ...where)).out).toMatch(/^ID +WORKFLOW +SCOPE +STATUS /);
    });

  for (const way of ways)
    test(`keys by ${way}: released, resolved, erased`, async ({ scene }) => {
      const store = await scene.open();
      const { where, actor } = await wayTo(way, scene, store);
      const sent = once(store, { scope: "shop", key: key.of("k-1"), effect: "atMostOnce" }, () => {
        throw new Error("connection lost");
      });
      await expect(sent).rejects.toThrow();
      await once(store, { scope: "shop", key: key.of("k-2") }, () => ({ secret: "hunter2" }));
      const listed = await command("keys", "list", "shop", ...where);
      expect(listed.out).toMatch(/shop +k-1 +unknown .*\nshop +k-2 +completed /);
      const resolve = ["keys", "resolve", "shop", "k-1", "--attempt", "1", "--completed", '{"id":1}', ...where];
      expect(await command(...resolve)).toMatchObject({ code: 2, err: expect.stringMatching(/^reason/) as string });
      expect((await command(...resolve, "--reason", "asked", "--dry-run")).out).toMatch(/^dry run/);
      expect(await command(...resolve, "--reason", "asked the bank", "--action-id", "a-1")).toMatchObject({
        code: 0,
        out: 'key k-1 in scope "shop" is completed\n',
      });
      expect((await command(...resolve, "--reason", "asked the bank", "--action-id", "a-1")).out).toMatch(/^done before/);
      expect((await command("keys", "show", "shop", "k-1", ...where)).out).toContain(`resolve by ${actor}: asked the bank`);
      expect(await command("keys", "release", "shop", "k-2", ...where)).toMatchObject({
        code: 1,
        err: expect.stringContaining("no attempt runs") as string,
      });
      const erase = ["keys", "erase", "shop", "k-2", "--reason", "a request of the customer", ...where];
      expect(await command(...erase)).toMatchObject({ code: 2, err: expect.stringMatching(/^yes: /) as string });
      expect(await command(...erase, "--yes")).toMatchObject({ code: 0, out: expect.stringContaining("without its outcome") as string });
      expect((await command("keys", "show", "shop", "k-2", "--value", ...where)).out).not.toContain("hunter2");
      expect(await command("keys", "show", "shop", "k-3", ...where)).toMatchObject({ code: 1, err: 'key k-3 in scope "shop" not found\n' });
    });
});
