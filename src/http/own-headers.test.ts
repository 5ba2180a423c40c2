import { expect, test } from "vitest";
import { ownHeaders, withEarlier } from "./own-headers.js";

test("own headers are the values that earlier middleware had not set", () => {
  const before = [
    ["vary", "Origin"],
    ["set-cookie", "csrf=1"],
    ["x-frame-options", "DENY"],
    ["cache-control", "no-store"],
  ] as const;
  const now = [
    ["Vary", "Origin, Accept"],
    ["set-cookie", "csrf=1"],
    ["set-cookie", "order=1"],
    ["x-frame-options", "DENY"],
    ["cache-control", "private"],
    ["location", "/orders/1"],
  ] as const;
  expect(ownHeaders(now, before)).toEqual([
    ["vary", "Accept"],
    ["set-cookie", "order=1"],
    ["cache-control", "private"],
    ["location", "/orders/1"],
  ]);
  // The same cookie twice: one of them is the handler's.
  const cookie = ["set-cookie", "a=1"] as const;
  expect(ownHeaders([cookie, cookie], [cookie])).toEqual([cookie]);
});

test("a stored response replaces earlier headers, and adds to cookies, links and vary", () => {
  const earlier = [
    ["vary", "Origin"],
    ["set-cookie", "csrf=2"],
    ["cache-control", "no-store"],
    ["x-frame-options", "DENY"],
  ] as const;
  const headers = [
    ["vary", "origin, Accept"],
    ["set-cookie", "order=1"],
    ["cache-control", "private"],
  ] as const;
  expect(withEarlier({ status: 200, headers, body: null }, earlier).headers).toEqual([
    ["set-cookie", "csrf=2"],
    ["x-frame-options", "DENY"],
    ["set-cookie", "order=1"],
    ["cache-control", "private"],
    ["vary", "Origin, Accept"],
  ]);
});
