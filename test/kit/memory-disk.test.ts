import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { memoryFolder } from "./memory-disk.js";
import { temporaryFolder } from "./temporary-folder.js";

test("every user may write into the folder, and no other run gets it", () => {
  const root = temporaryFolder(onTestFinished);
  const [one, other] = [memoryFolder(root, 0) ?? "", memoryFolder(root, 0) ?? ""];
  expect(one).not.toBe(other);
  for (const folder of [one, other]) expect(statSync(folder).mode & 0o7777).toBe(0o1777);
});

test("folders of killed runs are removed, and those of live runs stay", () => {
  const root = temporaryFolder(onTestFinished);
  const { pid: dead } = spawnSync(process.execPath, ["--version"]);
  const [left, lives, foreign] = [`onceflow-tests-${dead}-a`, `onceflow-tests-${process.ppid}-a`, "another"].map((name) =>
    join(root, name),
  );
  for (const folder of [left, lives, foreign]) mkdirSync(folder as string);
  memoryFolder(root, 0);
  expect([left, lives, foreign].map((folder) => existsSync(folder as string))).toEqual([false, true, true]);
});

test("there is no folder if the root is missing or has too little space", () => {
  const root = temporaryFolder(onTestFinished);
  expect(memoryFolder(join(root, "missing"), 0)).toBeUndefined();
  expect(memoryFolder(root, Number.MAX_SAFE_INTEGER)).toBeUndefined();
});
