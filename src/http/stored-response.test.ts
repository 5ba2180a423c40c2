import { expect, test } from "vitest";
import { fc } from "../../test/kit/properties.js";
import { decode, encode } from "../core/values/codec.js";
import { fingerprintOf } from "./fingerprint.js";
import { fromStored, headerFilter, toStored } from "./stored-response.js";

test("restores any body and any kept header unchanged", () => {
  const header = fc.tuple(fc.constantFrom("content-type", "set-cookie", "location"), fc.string());
  const response = fc.record({ status: fc.integer({ min: 200, max: 599 }), headers: fc.array(header), body: fc.uint8Array() });
  fc.assert(
    fc.property(response, ({ status, headers, body }) => {
      const stored = encode(toStored({ status, headers, body, whole: true }, () => true, false));
      const back = fromStored(decode(stored) as never);
      expect([back?.status, back?.headers]).toEqual([status, headers]);
      expect(Buffer.from(back?.body ?? [])).toEqual(Buffer.from(body));
    }),
  );
  const bom = Buffer.from([0xef, 0xbb, 0xbf, 0x61]);
  expect(fromStored(toStored({ status: 200, headers: [], body: bom, whole: true }, () => true, false))?.body).toEqual(bom);
});

test("never keeps headers of the connection", () => {
  const keeps = headerFilter(["*", "Content-*", "X-Id"]);
  expect(["connection", "transfer-encoding", "date", "proxy-authenticate", "idempotent-replayed"].filter(keeps)).toEqual([]);
  expect(headerFilter(["content-*", "X-Id"])("x-id")).toBe(true);
  expect(headerFilter(["content-*"])("x-id")).toBe(false);
});

test("fingerprints differ if the same characters are split differently between method, path, query and body", () => {
  const parts = fc.record({ method: fc.string(), path: fc.string(), query: fc.string(), body: fc.uint8Array() });
  const print = ({ method, path, query, body }: { method: string; path: string; query: string; body: Uint8Array }) =>
    fingerprintOf("bytes", { method, path, query, contentType: null, body: { bytes: body } });
  fc.assert(
    fc.property(parts, parts, (a, b) => {
      const same = a.method === b.method && a.path === b.path && a.query === b.query && Buffer.from(a.body).equals(Buffer.from(b.body));
      expect(print(a) === print(b)).toBe(same);
    }),
  );
  const empty = { query: "", body: new Uint8Array() };
  expect(print({ ...empty, method: "PO", path: "ST" })).not.toBe(print({ ...empty, method: "POST", path: "" }));
});
