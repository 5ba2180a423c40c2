import { expect, test } from "vitest";
import { folded, spelledAs } from "./route-path.js";

test.each([
  ["/orders", "/Orders/", "/orders"],
  ["/orders/", "/orders", "/orders/"],
  ["/", "/", "/"],
  ["/Users/:id/pay", "/users/AbC/PAY", "/Users/AbC/pay"],
  ["/:a/:b", "/X/y/", "/X/y"],
  ["/orders/:id", "/orders/%41", "/orders/%41"],
  // Routes with other parts than fixed ones and whole parameters, and paths that do not match the route.
  ["/orders/:id?", "/orders/1", undefined],
  ["/orders{/:id}", "/orders/1", undefined],
  ["/files/*path", "/files/a/b", undefined],
  ["/:from-:to", "/a-b", undefined],
  ["/orders", "/other", undefined],
  ["/orders/:id", "/orders", undefined],
  ["/orders", "//orders", undefined],
])("route %s spells %s as %s", (route, path, spelled) => {
  expect(spelledAs(route, path)).toBe(spelled);
});

test("folds paths as the router compares them", () => {
  const loose = { ignoreCase: true, ignoreTrailingSlash: true };
  expect(["/Orders/A/", "/orders/a", "/", "/orders//"].map((path) => folded(path, loose))).toEqual([
    "/orders/a",
    "/orders/a",
    "/",
    "/orders/",
  ]);
  expect(folded("/Orders/", { ignoreCase: false, ignoreTrailingSlash: false })).toBe("/Orders/");
  expect(folded("//Orders///a", { ignoreCase: false, ignoreTrailingSlash: false, ignoreDuplicateSlashes: true })).toBe("/Orders/a");
});
