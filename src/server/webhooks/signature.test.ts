import { createHmac } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { WebhookSignature } from "../../exports/graph.js";
import { isSigned } from "./signature.js";

const request = (body: string, headers: Record<string, string>) => ({ body: Buffer.from(body), headers: new Headers(headers) });
const hmac = (key: string | Buffer, text: string, algorithm = "sha256") => createHmac(algorithm, key).update(text);
const toleranceMs = 300_000;

describe("signatures that the schemes publish as examples", () => {
  test("github", () => {
    const hello = request("Hello, World!", {
      "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    });
    const scheme: WebhookSignature = { scheme: "github", secrets: ["S"] };
    expect(isSigned(scheme, [Buffer.from("It's a Secret to Everybody")], hello)).toBe(true);
    expect(isSigned(scheme, [Buffer.from("It's a secret to Everybody")], hello)).toBe(false);
  });

  test("standard-webhooks", () => {
    const at = 1_614_265_330_000;
    const signed = request('{"test": 2432232314}', {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": String(at / 1000),
      "webhook-signature": "v1,AAAA v2,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    });
    const scheme: WebhookSignature = { scheme: "standard-webhooks", secrets: ["S"], toleranceMs };
    const keys = [Buffer.from("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "base64")];
    expect(isSigned(scheme, keys, signed, at)).toBe(true);
    for (const late of [-toleranceMs - 1, toleranceMs + 1]) expect(isSigned(scheme, keys, signed, at + late)).toBe(false);
  });
});

describe("stripe", () => {
  const scheme: WebhookSignature = { scheme: "stripe", secrets: ["OLD", "NEW"], toleranceMs };
  const now = 1_700_000_000_000;
  const at = now / 1000;
  const v1 = (secret: string, body = "{}", time = at) => hmac(secret, `${time}.${body}`).digest("hex");
  const keys = [Buffer.from("old"), Buffer.from("new")];
  const check = (header: string, body = "{}") => isSigned(scheme, keys, request(body, { "stripe-signature": header }), now);

  test("any of the secrets signs, and the header may have several signatures", () => {
    expect(check(`t=${at},v1=${v1("old")}`)).toBe(true);
    expect(check(`t=${at}, v1=${v1("another")}, v1=${v1("new")}, v0=x`)).toBe(true);
  });

  test.each([
    ["no header", ""],
    ["no signature", `t=${at}`],
    ["no time", `v1=${v1("old")}`],
    ["another secret", `t=${at},v1=${v1("another")}`],
    ["another time than was signed", `t=${at + 1},v1=${v1("old")}`],
    ["another body", `t=${at},v1=${v1("old", "{ }")}`],
    ["an old time, correctly signed", `t=${at - 301},v1=${v1("old", "{}", at - 301)}`],
    ["a time that is not a number", `t=now,v1=${hmac("old", "now.{}").digest("hex")}`],
    ["only the beginning of the signature", `t=${at},v1=${v1("old").slice(0, 62)}`],
    ["a signature with more behind it", `t=${at},v1=${v1("old")}zz`],
    ["another version", `t=${at},v0=${v1("old")}`],
    ["more signatures than a provider sends", `t=${at},${`v1=${v1("another")},`.repeat(20)}v1=${v1("old")}`],
  ])("%s is refused", (_, header) => {
    expect(check(header)).toBe(false);
  });
});

describe("hmac", () => {
  const plain: WebhookSignature = {
    ...{ scheme: "hmac", secrets: ["S"], header: "x-signature", algorithm: "sha512", encoding: "base64", prefix: "", content: "{body}" },
  };
  const slack: WebhookSignature = {
    ...{ scheme: "hmac", secrets: ["S"], header: "x-slack-signature", algorithm: "sha256", encoding: "hex", prefix: "v0=" },
    ...{ content: "v0:{timestamp}:{body}", timestamp: { header: "x-slack-request-timestamp", toleranceMs } },
  };
  const keys = [Buffer.from("s")];

  test("algorithm, encoding, prefix and content are those of the document", () => {
    const signature = hmac("s", "ü{}", "sha512").digest("base64");
    expect(isSigned(plain, keys, request("ü{}", { "x-signature": signature }))).toBe(true);
    expect(isSigned(plain, keys, request("{}", { "x-signature": signature }))).toBe(false);
    const now = 1_700_000_000_000;
    const headers = (prefix: string) => ({
      "x-slack-request-timestamp": "1700000000",
      "x-slack-signature": `${prefix}${hmac("s", "v0:1700000000:{}").digest("hex")}`,
    });
    expect(isSigned(slack, keys, request("{}", headers("v0=")), now)).toBe(true);
    expect(isSigned(slack, keys, request("{}", headers("")), now)).toBe(false);
    expect(isSigned(slack, keys, request("{}", headers("v0=")), now + toleranceMs + 1)).toBe(false);
  });
});
