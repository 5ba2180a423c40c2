import { setTimeout as delay } from "node:timers/promises";
import { type ConformanceOptions, expect, expectProblem, expectSame, type Got, isSuccess, type Target } from "./target.js";

export interface CaseDefinition {
  readonly name: string;
  readonly about: string;
  /** Skipped without one of these options. */
  readonly needs?: readonly (keyof ConformanceOptions)[];
  readonly run: (target: Target) => Promise<unknown>;
}

const duplicates = 20;

const replays: readonly CaseDefinition[] = [
  {
    name: "executes",
    about: "two keys are two operations, with an answer each",
    async run(target) {
      const first = await target.execute({ key: target.newKey() });
      const other = await target.execute({ key: target.newKey() });
      expect(
        !first.bytes.equals(other.bytes),
        "two keys got one answer: the key is not looked at, or the URL does not answer with something new each time",
      );
    },
  },
  {
    name: "replay",
    about: "the same request again gets the first answer: status, type, Location and bytes",
    async run(target) {
      const key = target.newKey();
      const first = await target.execute({ key });
      for (let i = 0; i < 3; i++) expectSame(first, await target.send({ key }), "a retry");
    },
  },
  {
    name: "replay-marked",
    about: "a replay says that it is one, and the first answer does not",
    async run(target) {
      const { replayedHeader = "Idempotent-Replayed" } = target.options;
      if (replayedHeader === null) return;
      const key = target.newKey();
      const first = await target.execute({ key });
      expect(first.headers.get(replayedHeader) !== "true", "the first answer is marked as a replay");
      const again = await target.send({ key });
      expect(again.headers.get(replayedHeader) === "true", `a retry was answered without ${replayedHeader}: true`);
    },
  },
  {
    name: "quoted",
    about: 'the key as a quoted string ("k") and bare (k) is one key',
    async run(target) {
      const key = target.newKey();
      const first = await target.execute({ key });
      expectSame(first, await target.send({ key: `"${key}"` }), "the same key, quoted,");
    },
  },
  {
    name: "binary",
    about: "bytes that are no text come back as they were",
    needs: ["binaryUrl"],
    run: (target) => replaysAt(target, target.options.binaryUrl),
  },
  {
    name: "cookies",
    about: "a header that comes twice comes back twice",
    needs: ["cookieUrl"],
    async run(target) {
      const [first, again] = await replaysAt(target, target.options.cookieUrl);
      const cookies = first.headers.getSetCookie();
      expect(cookies.length >= 2, `the first answer sets ${cookies.length} cookies; two were expected`);
      expect(again.headers.getSetCookie().join("\n") === cookies.join("\n"), "a retry sets other cookies than the first answer");
    },
  },
];

async function replaysAt(target: Target, url: string | undefined): Promise<readonly [Got, Got]> {
  const at = url === undefined ? {} : { url };
  const key = target.newKey();
  const first = await target.execute({ key, ...at });
  const again = await target.send({ key, ...at });
  expectSame(first, again, "a retry");
  return [first, again];
}

const mismatches: readonly CaseDefinition[] = [
  {
    name: "mismatch",
    about: "the same key with another body is refused with 422",
    async run(target) {
      const key = target.newKey();
      await target.execute({ key, n: 1 });
      expectProblem(await target.send({ key, n: 2 }), 422, "the key with another body");
    },
  },
  {
    name: "mismatch-keeps",
    about: "a refused request changes nothing: the first one is still replayed",
    async run(target) {
      const key = target.newKey();
      const first = await target.execute({ key, n: 1 });
      await target.send({ key, n: 2 });
      expectSame(first, await target.send({ key, n: 1 }), "a retry after a refused request");
    },
  },
  {
    name: "mismatch-query",
    about: "the query is part of the request: another one is refused with 422",
    async run(target) {
      const key = target.newKey();
      const other = new URL(target.url);
      other.searchParams.set("conformance", "other");
      await target.execute({ key });
      expectProblem(await target.send({ key, url: other.href }), 422, "the key with another query");
    },
  },
  {
    name: "problem-json",
    about: "refusals are problem details (RFC 9457) with a type",
    async run(target) {
      const key = target.newKey();
      await target.execute({ key, n: 1 });
      const { headers, bytes } = await target.send({ key, n: 2 });
      const type = headers.get("content-type") ?? "none";
      expect(type.startsWith("application/problem+json"), `a refusal has the content type ${type}; application/problem+json was expected`);
      const { type: uri } = JSON.parse(bytes.toString()) as { type?: unknown };
      expect(typeof uri === "string" && uri !== "about:blank", "a refusal has no type of its own");
    },
  },
];

const keys: readonly CaseDefinition[] = [
  {
    name: "key-missing",
    about: "a request without a key is refused with 400",
    async run(target) {
      if (target.options.keyRequired === false) return;
      expectProblem(await target.send({}), 400, "a request without a key");
    },
  },
  {
    name: "key-malformed",
    about: "a key that is empty, or quoted on one side, is refused with 400",
    async run(target) {
      expectProblem(await target.send({ key: '""' }), 400, "an empty key");
      expectProblem(await target.send({ key: `"${target.newKey()}` }), 400, "a key that is quoted on one side");
    },
  },
  {
    name: "key-case",
    about: "keys that differ in upper and lower case are two operations",
    async run(target) {
      const key = target.newKey();
      const first = await target.execute({ key });
      const other = await target.send({ key: key.toUpperCase() });
      expect(
        isSuccess(other) && !other.bytes.equals(first.bytes),
        `the key in capital letters was answered with ${other.status}${other.bytes.equals(first.bytes) ? " and the first answer" : ""}; it is another key, and new`,
      );
      target.executed.add(key.toUpperCase());
    },
  },
  {
    name: "key-too-long",
    about: "a key that is too long is refused with 400, and one of the full length is not",
    async run(target) {
      const { keyCharsMax = 255 } = target.options;
      expectProblem(
        await target.send({ key: target.newKey().padEnd(keyCharsMax + 1, "x") }),
        400,
        `a key of ${keyCharsMax + 1} characters`,
      );
      await target.execute({ key: target.newKey().padEnd(keyCharsMax, "x") });
    },
  },
];

const apart: readonly CaseDefinition[] = [
  {
    name: "other-route",
    about: "another route's keys are its own",
    needs: ["otherUrl"],
    async run(target) {
      const key = target.newKey();
      const first = await target.execute({ key });
      const other = await target.send({ key, url: target.options.otherUrl ?? "" });
      // Two operations, with one effect each.
      target.executed.delete(key);
      expect(
        isSuccess(other) && !other.bytes.equals(first.bytes),
        `the key was answered with ${other.status} on another route, where it is new`,
      );
    },
  },
  {
    name: "other-caller",
    about: "somebody else's keys are their own, and no answer leaks",
    needs: ["otherCaller"],
    async run(target) {
      const key = target.newKey();
      const first = await target.execute({ key });
      const other = await target.send({ key, headers: target.options.otherCaller ?? {} });
      target.executed.delete(key);
      expect(!other.bytes.equals(first.bytes), "somebody else got the first caller's answer");
      expect(isSuccess(other), `the key was answered with ${other.status} to somebody else, for whom it is new`);
    },
  },
];

const races: readonly CaseDefinition[] = [
  {
    name: "concurrent",
    about: `${duplicates} duplicates at once are executed once`,
    async run(target) {
      const key = target.newKey();
      const answers = await Promise.all(Array.from({ length: duplicates }, () => target.send({ key })));
      const first = answers.find(isSuccess);
      const again = await settled(target, { key });
      for (const got of answers) {
        if (got.status === 409) continue;
        expect(isSuccess(got), `a duplicate was answered with ${got.status}; the first answer or 409 was expected`);
        expectSame(first ?? again, got, "a duplicate");
      }
      expectSame(first ?? again, again, "a retry");
      target.executed.add(key);
    },
  },
  {
    name: "in-flight",
    about: "while one request is worked on, a duplicate gets 409 with Retry-After, or waits for its answer",
    needs: ["slowUrl"],
    async run(target) {
      const sent = { key: target.newKey(), url: target.options.slowUrl ?? "" };
      const answers = await Promise.all([target.send(sent), delay(headStartMs).then(() => target.send(sent))]);
      const first = answers.find(isSuccess);
      expect(first !== undefined, `both were refused: ${answers.map(({ status }) => status).join(", ")}`);
      target.executed.add(sent.key);
      for (const got of answers)
        if (got.status === 409) expect(got.headers.has("retry-after"), "a duplicate was answered with 409, and without Retry-After");
        else expectSame(first, got, "a duplicate");
      expectSame(first, await settled(target, sent), "a retry");
    },
  },
  {
    name: "in-flight-mismatch",
    about: "while one request is worked on, the key with another body gets 422, not 409",
    needs: ["slowUrl"],
    async run(target) {
      const sent = { key: target.newKey(), url: target.options.slowUrl ?? "" };
      const answers = await Promise.all([target.send({ ...sent, n: 1 }), delay(headStartMs).then(() => target.send({ ...sent, n: 2 }))]);
      const statuses = answers.map(({ status }) => status).join(", ");
      const refused = answers.find((got) => !isSuccess(got));
      expect(refused !== undefined && answers.some(isSuccess), `two bodies under one key were answered with ${statuses}`);
      expectProblem(refused, 422, "the key with another body");
    },
  },
  {
    name: "disconnect",
    about: "a client that leaves gets the answer when it comes back",
    needs: ["slowUrl"],
    async run(target) {
      const key = target.newKey();
      const url = target.options.slowUrl ?? "";
      const left = AbortSignal.timeout(headStartMs);
      await target.send({ key, url, signal: left }).catch(() => {});
      expect(left.aborted, "slowUrl answered at once; it has to take a second or more");
      const first = await settled(target, { key, url });
      expect(isSuccess(first), `a client that came back was answered with ${first.status}`);
      expectSame(first, await target.send({ key, url }), "a retry");
      target.executed.add(key);
    },
  },
  {
    name: "failing",
    about: "a failure (5xx) is not kept: the retry is a new attempt; with keepsFailures, it is replayed",
    needs: ["failingUrl"],
    async run(target) {
      const { replayedHeader = "Idempotent-Replayed", failingUrl = "", keepsFailures = false } = target.options;
      const key = target.newKey();
      const first = await target.send({ key, url: failingUrl });
      expect(first.status >= 500, `failingUrl answered with ${first.status}; 5xx was expected`);
      const again = await target.send({ key, url: failingUrl });
      if (keepsFailures) return expectSame(first, again, "a retry of a failure");
      const replayed = again.bytes.equals(first.bytes) || (replayedHeader !== null && again.headers.get(replayedHeader) === "true");
      expect(again.status >= 500 && !replayed, "a failure was replayed");
    },
  },
  {
    name: "effects",
    about: "every key that was executed took effect once",
    needs: ["effects", "effectsUrl"],
    async run(target) {
      for (const key of target.executed) {
        const count = await target.effectsOf(key);
        expect(count === 1, `key ${key} took effect ${count} times`);
      }
    },
  },
];

/** Enough for a request to arrive; slowUrl takes a second. */
const headStartMs = 300;

/** Asks until it is not "being worked on" any more. */
async function settled(target: Target, sent: { readonly key: string; readonly url?: string }): Promise<Got> {
  const { settleMsMax = 20_000 } = target.options;
  const until = Date.now() + settleMsMax;
  for (;;) {
    const got = await target.send(sent);
    if (got.status !== 409) return got;
    expect(Date.now() < until, `the key was still answered with 409 after ${settleMsMax / 1000} s`);
    await delay(100);
  }
}

/** In this order: the last one counts what the others did. */
export const cases: readonly CaseDefinition[] = [...replays, ...mismatches, ...keys, ...apart, ...races];
