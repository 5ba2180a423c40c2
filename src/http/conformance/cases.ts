import { setTimeout as delay } from "node:timers/promises";
import { type ConformanceOptions, expect, expectProblem, expectSame, type Got, isSuccess, type Target } from "./target.js";

export interface CaseDefinition {
  readonly name: string;
  readonly about: string;
  /** The case is skipped unless one of these options is set. */
  readonly needs?: readonly (keyof ConformanceOptions)[];
  readonly run: (target: Target) => Promise<unknown>;
}

const duplicates = 20;

const replays: readonly CaseDefinition[] = [
  {
    name: "executes",
    about: "two keys are two operations with different responses",
    async run(target) {
      const first = await target.execute({ key: target.newKey() });
      const other = await target.execute({ key: target.newKey() });
      expect(
        !first.bytes.equals(other.bytes),
        "two keys got the same response: the server ignores the key, or the URL's response is not different each time",
      );
    },
  },
  {
    name: "replay",
    about: "a retry gets the first response: same status, content type, Location and body",
    async run(target) {
      const key = target.newKey();
      const first = await target.execute({ key });
      for (let i = 0; i < 3; i++) expectSame(first, await target.send({ key }), "a retry");
    },
  },
  {
    name: "replay-marked",
    about: "a replay is marked as a replay, and the first response is not",
    async run(target) {
      const { replayedHeader = "Idempotent-Replayed" } = target.options;
      if (replayedHeader === null) return;
      const key = target.newKey();
      const first = await target.execute({ key });
      expect(first.headers.get(replayedHeader) !== "true", "the first response is marked as a replay");
      const again = await target.send({ key });
      expect(again.headers.get(replayedHeader) === "true", `the response to a retry has no ${replayedHeader}: true`);
    },
  },
  {
    name: "quoted",
    about: 'a quoted key ("k") and a bare key (k) are the same key',
    async run(target) {
      const key = target.newKey();
      const first = await target.execute({ key });
      expectSame(first, await target.send({ key: `"${key}"` }), "the same key, quoted,");
    },
  },
  {
    name: "binary",
    about: "a binary body is replayed unchanged",
    needs: ["binaryUrl"],
    run: (target) => replaysAt(target, target.options.binaryUrl),
  },
  {
    name: "cookies",
    about: "a header that occurs twice is replayed twice",
    needs: ["cookieUrl"],
    async run(target) {
      const [first, again] = await replaysAt(target, target.options.cookieUrl);
      const cookies = first.headers.getSetCookie();
      expect(cookies.length >= 2, `the first response sets ${cookies.length} cookies; expected at least 2`);
      expect(again.headers.getSetCookie().join("\n") === cookies.join("\n"), "a retry sets different cookies than the first response");
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
    about: "the same key with a different body is rejected with 422",
    async run(target) {
      const key = target.newKey();
      await target.execute({ key, n: 1 });
      expectProblem(await target.send({ key, n: 2 }), 422, "the key with a different body");
    },
  },
  {
    name: "mismatch-keeps",
    about: "a rejected request changes nothing: the first response is still replayed",
    async run(target) {
      const key = target.newKey();
      const first = await target.execute({ key, n: 1 });
      await target.send({ key, n: 2 });
      expectSame(first, await target.send({ key, n: 1 }), "a retry after a rejected request");
    },
  },
  {
    name: "mismatch-query",
    about: "the same key with a different query is rejected with 422",
    async run(target) {
      const key = target.newKey();
      const other = new URL(target.url);
      other.searchParams.set("conformance", "other");
      await target.execute({ key });
      expectProblem(await target.send({ key, url: other.href }), 422, "the key with a different query");
    },
  },
  {
    name: "problem-json",
    about: "rejections are problem details (RFC 9457) with a type",
    async run(target) {
      const key = target.newKey();
      await target.execute({ key, n: 1 });
      const { headers, bytes } = await target.send({ key, n: 2 });
      const type = headers.get("content-type") ?? "none";
      expect(type.startsWith("application/problem+json"), `a rejection has content type ${type}; expected application/problem+json`);
      const { type: uri } = JSON.parse(bytes.toString()) as { type?: unknown };
      expect(typeof uri === "string" && uri !== "about:blank", "a rejection has no specific type");
    },
  },
];

const keys: readonly CaseDefinition[] = [
  {
    name: "key-missing",
    about: "a request without a key is rejected with 400",
    async run(target) {
      if (target.options.keyRequired === false) return;
      expectProblem(await target.send({}), 400, "a request without a key");
    },
  },
  {
    name: "key-malformed",
    about: "an empty key, or a key with only one quote, is rejected with 400",
    async run(target) {
      expectProblem(await target.send({ key: '""' }), 400, "an empty key");
      expectProblem(await target.send({ key: `"${target.newKey()}` }), 400, "a key with only one quote");
    },
  },
  {
    name: "key-case",
    about: "keys are case-sensitive: two keys that differ in case are two operations",
    async run(target) {
      const key = target.newKey();
      const first = await target.execute({ key });
      const other = await target.send({ key: key.toUpperCase() });
      expect(
        isSuccess(other) && !other.bytes.equals(first.bytes),
        `the key in upper case got status ${other.status}${other.bytes.equals(first.bytes) ? " and the first response" : ""}; expected a new execution`,
      );
      target.executed.add(key.toUpperCase());
    },
  },
  {
    name: "key-too-long",
    about: "a key that is too long is rejected with 400; a key of the maximum length is accepted",
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
    about: "another route has separate keys",
    needs: ["otherUrl"],
    async run(target) {
      const key = target.newKey();
      const first = await target.execute({ key });
      const other = await target.send({ key, url: target.options.otherUrl ?? "" });
      // Two operations under this key take effect once each, so the case "effects" must not count it.
      target.executed.delete(key);
      expect(
        isSuccess(other) && !other.bytes.equals(first.bytes),
        `the key got status ${other.status} on another route, where it was not used before`,
      );
    },
  },
  {
    name: "other-caller",
    about: "another caller has separate keys and never gets the first caller's response",
    needs: ["otherCaller"],
    async run(target) {
      const key = target.newKey();
      const first = await target.execute({ key });
      const other = await target.send({ key, headers: target.options.otherCaller ?? {} });
      target.executed.delete(key);
      expect(!other.bytes.equals(first.bytes), "another caller got the first caller's response");
      expect(isSuccess(other), `the key got status ${other.status} for another caller, who had not used it before`);
    },
  },
];

const races: readonly CaseDefinition[] = [
  {
    name: "concurrent",
    about: `${duplicates} concurrent duplicates execute once`,
    async run(target) {
      const key = target.newKey();
      const answers = await Promise.all(Array.from({ length: duplicates }, () => target.send({ key })));
      const first = answers.find(isSuccess);
      const again = await settled(target, { key });
      for (const got of answers) {
        if (got.status === 409) continue;
        expect(isSuccess(got), `a duplicate got status ${got.status}; expected the first response or 409`);
        expectSame(first ?? again, got, "a duplicate");
      }
      expectSame(first ?? again, again, "a retry");
      target.executed.add(key);
    },
  },
  {
    name: "in-flight",
    about: "while a request is in progress, a duplicate gets 409 with Retry-After, or waits for the response",
    needs: ["slowUrl"],
    async run(target) {
      const sent = { key: target.newKey(), url: target.options.slowUrl ?? "" };
      const answers = await Promise.all([target.send(sent), delay(headStartMs).then(() => target.send(sent))]);
      const first = answers.find(isSuccess);
      expect(first !== undefined, `both requests were rejected: ${answers.map(({ status }) => status).join(", ")}`);
      target.executed.add(sent.key);
      for (const got of answers)
        if (got.status === 409) expect(got.headers.has("retry-after"), "a duplicate got 409 without Retry-After");
        else expectSame(first, got, "a duplicate");
      expectSame(first, await settled(target, sent), "a retry");
    },
  },
  {
    name: "in-flight-mismatch",
    about: "while a request is in progress, the same key with a different body gets 422, not 409",
    needs: ["slowUrl"],
    async run(target) {
      const sent = { key: target.newKey(), url: target.options.slowUrl ?? "" };
      const answers = await Promise.all([target.send({ ...sent, n: 1 }), delay(headStartMs).then(() => target.send({ ...sent, n: 2 }))]);
      const statuses = answers.map(({ status }) => status).join(", ");
      const refused = answers.find((got) => !isSuccess(got));
      expect(refused !== undefined && answers.some(isSuccess), `two different bodies with the same key got ${statuses}`);
      expectProblem(refused, 422, "the key with a different body");
    },
  },
  {
    name: "disconnect",
    about: "a client that disconnects gets the response when it retries",
    needs: ["slowUrl"],
    async run(target) {
      const key = target.newKey();
      const url = target.options.slowUrl ?? "";
      const left = AbortSignal.timeout(headStartMs);
      await target.send({ key, url, signal: left }).catch(() => {});
      expect(left.aborted, "slowUrl responded at once; it must take a second or more");
      const first = await settled(target, { key, url });
      expect(isSuccess(first), `the retry after a disconnect got status ${first.status}`);
      expectSame(first, await target.send({ key, url }), "a retry");
      target.executed.add(key);
    },
  },
  {
    name: "failing",
    about: "a failure (5xx) is not stored: a retry is a new attempt; with keepsFailures, it is replayed",
    needs: ["failingUrl"],
    async run(target) {
      const { replayedHeader = "Idempotent-Replayed", failingUrl = "", keepsFailures = false } = target.options;
      const key = target.newKey();
      const first = await target.send({ key, url: failingUrl });
      expect(first.status >= 500, `failingUrl responded with ${first.status}; expected 5xx`);
      const again = await target.send({ key, url: failingUrl });
      if (keepsFailures) return expectSame(first, again, "a retry of a failure");
      const replayed = again.bytes.equals(first.bytes) || (replayedHeader !== null && again.headers.get(replayedHeader) === "true");
      expect(again.status >= 500 && !replayed, "a failure was replayed");
    },
  },
  {
    name: "effects",
    about: "every executed key took effect once",
    needs: ["effects", "effectsUrl"],
    async run(target) {
      for (const key of target.executed) {
        const count = await target.effectsOf(key);
        expect(count === 1, `key ${key} took effect ${count} times`);
      }
    },
  },
];

/** Enough for a request to arrive; slowUrl takes a second or more. */
const headStartMs = 300;

/** Retries until the response is not 409. */
async function settled(target: Target, sent: { readonly key: string; readonly url?: string }): Promise<Got> {
  const { settleMsMax = 20_000 } = target.options;
  const until = Date.now() + settleMsMax;
  for (;;) {
    const got = await target.send(sent);
    if (got.status !== 409) return got;
    expect(Date.now() < until, `the key still gets 409 after ${settleMsMax / 1000} s`);
    await delay(100);
  }
}

/** The order matters: the last case counts the effects of the others. */
export const cases: readonly CaseDefinition[] = [...replays, ...mismatches, ...keys, ...apart, ...races];
