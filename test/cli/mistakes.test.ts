import type { Store } from "onceflow";
import { createInbox } from "onceflow/inbox";
import { createOutbox } from "onceflow/outbox";
import { start } from "onceflow/workflow/api";
import { afterEach, beforeEach, expect, vi } from "vitest";
import { onStoresInTurn, type Scene } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { serveApi } from "./api-server.js";
import { command, json } from "./command.js";

beforeEach(() => void vi.stubEnv("ONCEFLOW_TOKEN", "t-1"));
afterEach(() => void vi.unstubAllEnvs());

async function wayTo(way: "--store" | "--url", scene: Scene, store: Store): Promise<readonly string[]> {
  if (way === "--store") return ["--store", scene.url];
  const server = await serveApi(store);
  scene.onEnd(() => server.close());
  return ["--url", server.url];
}

/** What is typed, the exit code, and what the error says. */
const mistakes: readonly (readonly [readonly string[], number, RegExp])[] = [
  [["runs", "list", "--status", "fial"], 2, /Allowed choices are pending, running/],
  [["runs", "list", "--stauts", "failed"], 2, /Did you mean --status\?/],
  [["runs", "list", "--created-after", "yesterday"], 2, /Expected a time, such as 2026-11-19/],
  [["runs", "list", "--attribute", "customer"], 2, /Expected name=value/],
  [["runs", "list", "--error-name", "E", "--parent", "r-1"], 2, /./],
  [["runs", "show", "r-9"], 1, /^run r-9 not found/],
  [["runs", "cancell"], 1, /^run cancell not found\. Did you mean "onceflow runs cancel"\?/],
  [["runs", "cancell", "r-1"], 2, /has no subcommand "cancell"/],
  [["runs", "cancel", "r-9"], 1, /r-9.* not found/],
  [["runs", "cancel"], 2, /^ids: name runs, or use --all/],
  [["runs", "retry", "r-1", "--reason", "x"], 1, /only a failed run can go on/],
  [["runs", "retry", "r-1", "--force", "a#0"], 2, /^reason: is missing: `--force`/],
  [["runs", "delete", "r-1", "--reason", "x", "--yes"], 1, /cancel it first/],
  [["runs", "resolve", "r-1", "s", "--attempt", "1", "--reason", "x"], 2, /^resolution: is missing: give one of --completed/],
  [["runs", "resolve", "r-1", "s", "--completed", "1", "--reason", "x"], 2, /^attempt: is missing/],
  [["runs", "resolve", "r-1", "s", "--attempt", "1", "--completed", "paid"], 2, /a text needs quotes/],
  [["runs", "resolve", "r-1", "s", "--attempt", "1", "--completed", "1", "--not-applied", "--reason", "x"], 2, /^resolution: is ambiguous/],
  [["runs", "fork", "r-1", "--from", "nothing#0"], 2, /nothing#0/],
  [["runs", "fork", "r-1"], 2, /required option '--from <event>'/],
  [["runs", "deliver", "no-such-token"], 1, /./],
  [["runs", "watch", "r-9"], 1, /^run r-9 not found/],
  [["runs", "watch", "--every", "1ms"], 2, /^every: must be at least 200ms/],
  [["keys", "resolve", "", "k", "--free", "--reason", "x"], 2, /^attempt: is missing/],
  [["keys", "release", "", "k"], 1, /k.* not found/],
  [["dead-letters", "discard", "pk_zzz"], 2, /^reason: is missing: `discard` cannot be undone/],
  [["dead-letters", "retry", "--all"], 2, /^reason: is missing: this acts on many dead letters/],
  [["dead-letters", "discard", "pk_zzz", "--reason", "r"], 2, /^yes: this would discard 1 dead letter/],
  [["dead-letters", "discard", "m-1", "--inbox", "billing", "--reason", "r"], 2, /^inbox: has no operator log/],
  [["dead-letters", "discard", "--all", "--yes"], 2, /requires --flow/],
  [["dead-letters", "show", "pk_zzz"], 1, /^dead letter pk_zzz not found/],
  [["log", "--limit", "0"], 2, /from 1 to 1000/],
];

onStoresInTurn("the command line", ["sqlite"], (test) => {
  for (const way of ["--store", "--url"] as const)
    test(`says what is wrong, ${way}, and writes nothing`, async ({ scene }) => {
      const store = await scene.open();
      await start({ workflowId: "order" }, [], { id: "r-1", store });
      const where = await wayTo(way, scene, store);
      for (const [args, code, says] of mistakes) {
        const ran = await command(...args, ...where);
        expect([args, ran.code, ran.err], ran.out).toEqual([args, code, expect.stringMatching(says)]);
      }
      expect(await store.runs.log({ limit: 10 })).toEqual([]);
    });

  test("a store and a server exclude each other; a wrong token and a wrong address are errors; nothing of the token is printed", async ({
    scene,
  }) => {
    const store = await scene.open();
    const where = await wayTo("--url", scene, store);
    expect(await command("runs", "list", ...where, "--store", scene.url)).toMatchObject({
      code: 2,
      err: expect.stringMatching(/^url: /) as string,
    });
    expect(await command("runs", "list", "--token-file", "x", "--store", scene.url)).toMatchObject({
      code: 2,
      err: expect.stringMatching(/^token-file: needs --url/) as string,
    });
    vi.stubEnv("ONCEFLOW_TOKEN", "hunter2");
    const refused = await command("runs", "list", ...where, "--json");
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining("answered 401") as string });
    expect(JSON.parse(refused.out)).toMatchObject({ ok: false, error: { code: "UNAUTHORIZED" } });
    expect(refused.out + refused.err).not.toContain("hunter2");
    expect(await command("runs", "show", "r-1", "--url", `${where[1]}/elsewhere`)).toMatchObject({
      code: 1,
      err: expect.stringMatching(/answered 404/) as string,
    });
    expect(await command("runs", "list", "--url", "http://127.0.0.1:9")).toMatchObject({
      code: 1,
      err: expect.stringContaining("cannot be reached") as string,
    });
  });

  test("watch prints runs that change, one line or one JSON object each, and ends with the named ones", async ({ scene }) => {
    const store = await scene.open();
    await start({ workflowId: "order" }, [], { id: "r-1", store });
    const ran = command("runs", "watch", "r-1", "--every", "200ms", "--json", "--store", scene.url);
    const { terminate } = await import("../../src/operate/runs.js");
    await terminate(store, "r-1", { actor: "ada", reason: "test" });
    const { code, out } = await ran;
    const seen = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { id: string; status: string });
    expect([code, seen.at(-1)]).toMatchObject([1, { id: "r-1", status: "cancelled" }]);
    const again = await command("runs", "watch", "r-1", "--store", scene.url);
    expect(again.out).toMatch(/^\S+ \S+Z {2}r-1 {2}order {2}cancelled\n$/);
  });

  for (const way of ["--store", "--url"] as const)
    test(`dead letters of an outbox, ${way}: listed, shown, retried, discarded`, async ({ scene }) => {
      const store = await scene.open();
      const outbox = createOutbox<{ to: string }>(store, { name: "mails", attemptsMax: 1 });
      const relay = outbox.relay(() => Promise.reject(new Error("mailbox full")));
      scene.onEnd(() => relay.stop());
      await outbox.add(undefined, { id: "m-1", payload: { to: "ada" } });
      await until("the message is dead", async () => (await outbox.deadLetters()).length === 1);
      const where = await wayTo(way, scene, store);
      const [letter] = await json<{ id: string; flow: string }[]>("dead-letters", "list", ...where);
      expect(letter?.flow).toBe("outbox:mails");
      const id = letter?.id ?? "";
      expect((await command("dead-letters", "show", id, ...where)).out).toContain("mailbox full");
      expect((await command("dead-letters", "retry", id, "--dry-run", ...where)).out).toBe(
        `dry run, nothing was done; retry would be called for 1 dead letter: ${id}\n`,
      );
      const retry = ["dead-letters", "retry", id, "--action-id", "a-1", "--reason", "the mailbox is empty", ...where];
      expect((await command(...retry)).out).toBe("1 dead letter retried\n");
      await until("the message is dead again", async () => (await outbox.deadLetters()).length === 1);
      expect((await command(...retry)).out).toBe("1 dead letter retried\n");
      expect((await outbox.deadLetters())[0]?.attempts).toBe(2);
      const discard = ["dead-letters", "discard", id, "--reason", "a wrong address", "--yes", ...where];
      expect((await command(...discard, "--dry-run")).out).toContain(`discard would be called for 1 dead letter: ${id}\n`);
      expect((await command(...discard)).out).toBe("1 dead letter discarded\n");
      expect(await outbox.deadLetters()).toEqual([]);
      expect((await command(...retry)).out).toBe("1 dead letter retried\n");
      expect(await json<object[]>("log", ...where)).toMatchObject([
        { action: "discardDeadLetter", runId: id, reason: "a wrong address" },
        { action: "retryDeadLetter", runId: id, reason: "the mailbox is empty", actionId: "a-1" },
      ]);
    });

  test("dead letters of an inbox: listed, shown and discarded; only the program can retry them", async ({ scene }) => {
    const store = await scene.open();
    const inbox = createInbox(store, { consumer: "billing" });
    const { PermanentError } = await import("onceflow/inbox");
    await inbox.handle({ id: "m-1", payload: { order: 1 } }, () => {
      throw new PermanentError("no such customer");
    });
    const line = (...args: string[]) => command("dead-letters", ...args, "--inbox", "billing", "--store", scene.url);
    expect((await line("list")).out).toMatch(/\nm-1 +inbox:billing .*no such customer\n/);
    expect((await line("show", "m-1")).out).toMatch(/payload +\{"order":1\}/);
    expect(await line("retry", "m-1")).toMatchObject({ code: 2, err: expect.stringContaining('inbox.retry("m-1", handler)') as string });
    expect((await line("discard", "m-1", "--yes")).out).toBe("1 dead letter discarded\n");
    expect(await inbox.deadLetters()).toEqual([]);
  });
});
