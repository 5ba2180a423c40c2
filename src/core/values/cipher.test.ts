import { randomBytes } from "node:crypto";
import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { fc } from "../../../test/kit/properties.js";
import { EncryptionError, InvalidInputError } from "../errors/errors.js";
import type { Operation } from "../ledger/operation.js";
import type { RunOperation } from "../runs/operation.js";
import { encryptedBackend } from "../store/encrypted/backend.js";
import type { Backend } from "../store/store.js";
import { Cipher, type EncryptionKey, type EncryptionOptions } from "./cipher.js";

const key = (id: string): EncryptionKey => ({ id, key: randomBytes(32) });
const [old, young] = [key("2025"), key("2026")] as const;
const boundTo = ["ledger", "", "k", "outcome"];

describe("a cipher", () => {
  const cipher = new Cipher({ keys: [young, old] });

  test("decrypts what it has encrypted, text and bytes, and never encrypts the same way twice", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.uint8Array(), (text, bytes) => {
        const sealed = cipher.seal(text, boundTo);
        expect(sealed).toMatch(/^sealed:2026:[A-Za-z0-9+/]+=*$/);
        expect(cipher.open(sealed, boundTo)).toBe(text);
        expect(cipher.seal(text, boundTo)).not.toBe(sealed);
        expect([...cipher.openBytes(cipher.sealBytes(bytes, boundTo), boundTo)]).toEqual([...bytes]);
      }),
    );
  });

  test("decrypts with older keys, and encrypts with the first", () => {
    const before = new Cipher({ keys: [old] }).seal("text", boundTo);
    expect(cipher.open(before, boundTo)).toBe("text");
    expect(cipher.seal("text", boundTo)).toMatch(/^sealed:2026:/);
  });

  test("names the missing key", () => {
    const sealed = cipher.seal("text", boundTo);
    const error = thrownBy(() => new Cipher({ keys: [old] }).open(sealed, boundTo));
    expect(error).toMatchObject({ code: "CANNOT_DECRYPT", keyId: "2026" });
    expect(error.message).toBe(
      '[onceflow] the stored value "ledger" "" "k" "outcome" was encrypted with the key "2026", which is not in encryption.keys; add that key after the first one',
    );
  });

  test("does not decrypt a value that was changed, moved, cut, or encrypted with another key of the same id", () => {
    const sealed = cipher.seal("some text", boundTo);
    const bytes = Buffer.from(cipher.sealBytes(Buffer.from("some text"), boundTo));
    const other = new Cipher({ keys: [key("2026")] });
    const wrong = [
      () => other.open(sealed, boundTo),
      () => cipher.open(sealed, ["ledger", "", "other", "outcome"]),
      () => cipher.open(sealed, ["ledger", "", "k", "progress"]),
      () => cipher.open(sealed.replace("2026", "2025"), boundTo),
      () => cipher.open("sealed:2026:", boundTo),
      () => cipher.open("sealed:2026:AAAA", boundTo),
      () => cipher.openBytes(bytes, ["elsewhere"]),
      () => cipher.openBytes(bytes.subarray(0, -1), boundTo),
    ];
    for (const open of wrong) expect(thrownBy(open).message).toContain("cannot be decrypted");
    for (let at = "sealed:2026:".length; at < sealed.length - 2; at += 3) {
      const changed = `${sealed.slice(0, at)}${sealed[at] === "A" ? "B" : "A"}${sealed.slice(at + 1)}`;
      expect(thrownBy(() => cipher.open(changed, boundTo))).toBeInstanceOf(EncryptionError);
    }
  });

  test("returns values that are not encrypted, unless encryption is required", () => {
    expect(cipher.open('{"a":1}', boundTo)).toBe('{"a":1}');
    expect(cipher.openBytes(Buffer.from("bytes"), boundTo)).toEqual(Buffer.from("bytes"));
    const strict = new Cipher({ keys: [young], required: true });
    expect(thrownBy(() => strict.open('{"a":1}', boundTo)).message).toContain("is not encrypted, but encryption.required is set");
    expect(thrownBy(() => strict.openBytes(Buffer.from("bytes"), boundTo))).toBeInstanceOf(EncryptionError);
  });

  test("accepts keys as bytes, hexadecimal and base64", () => {
    const bytes = randomBytes(32);
    const sealed = new Cipher({ keys: [{ id: "k", key: bytes }] }).seal("text", boundTo);
    for (const form of ["hex", "base64", "base64url"] as const)
      expect(new Cipher({ keys: [{ id: "k", key: bytes.toString(form) }] }).open(sealed, boundTo)).toBe("text");
  });

  test("never shows a key, neither in messages nor to inspect", () => {
    const secret = randomBytes(32);
    const shown = [inspect(new Cipher({ keys: [{ id: "k", key: secret }] }), { depth: 9, showHidden: true })];
    const short = secret.toString("hex").slice(2);
    shown.push(thrownBy(() => new Cipher({ keys: [{ id: "k", key: short }] })).message);
    for (const form of ["hex", "base64"] as const) for (const text of shown) expect(text).not.toContain(secret.toString(form).slice(4, 20));
  });

  test.each([
    [{ keys: [] }, "encryption.keys"],
    [{ keys: "secret" }, "encryption.keys"],
    [{ keys: Array.from({ length: 33 }, (_, i) => key(String(i))) }, "encryption.keys"],
    [{ keys: [old, old] }, "encryption.keys"],
    [{ keys: [{ id: "a:b", key: randomBytes(32) }] }, "encryption.keys[0].id"],
    [{ keys: [old, { id: "k", key: randomBytes(31) }] }, "encryption.keys[1].key"],
    [{ keys: [{ id: "k", key: "password" }] }, "encryption.keys[0].key"],
    [{ keys: [old, null] }, "encryption.keys[1].id"],
    [{ keys: [old], required: "yes" }, "encryption.required"],
  ])("refuses what is no set of keys, and says where: %#", (options, field) => {
    const error = thrownBy(() => new Cipher(options as unknown as EncryptionOptions));
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error).toMatchObject({ field });
  });
});

test("an operation that is sent again has the same encrypted bytes", async () => {
  const sent: unknown[] = [];
  const answer = { answer: { kind: "settled" as const }, record: undefined, now: 0 };
  const seen = {
    name: "fake",
    async flush(operations: readonly Operation[]) {
      sent.push(structuredClone(operations));
      return operations.map(() => answer);
    },
    runs: {
      async flush(operations: readonly RunOperation[]) {
        sent.push(structuredClone(operations));
        return operations.map(() => ({ kind: "overtaken" as const }));
      },
    },
  } as unknown as Backend;
  const backend = encryptedBackend(seen, new Cipher({ keys: [young] }));
  const to = { state: "completed" as const, outcome: '"text"' };
  const settle: Operation = { verb: "settle", scope: "", key: "k", owner: "o", attempt: 1, to, note: null };
  const entry = {
    events: "[]",
    consumed: null,
    hooks: [],
    children: [],
    then: { kind: "end", status: "completed", output: '"text"' },
  } as const;
  const append: RunOperation = { verb: "append", id: "r", creator: "c", epoch: 1, seq: 2, entry };
  for (let i = 0; i < 2; i++) await backend.flush([settle]);
  for (let i = 0; i < 2; i++) await backend.runs?.flush([append]);
  expect(JSON.stringify(sent)).not.toContain("text");
  expect(sent[1]).toEqual(sent[0]);
  expect(sent[3]).toEqual(sent[2]);
  await backend.flush([{ ...settle }]);
  expect(sent[4]).not.toEqual(sent[0]);
});

function thrownBy(work: () => unknown): Error {
  try {
    work();
  } catch (error) {
    return error as Error;
  }
  throw new Error("nothing was thrown");
}
