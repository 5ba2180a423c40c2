import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { runCommand } from "../servers/process/command.js";
import { programOnPath } from "../servers/sources/on-path.js";
import { goModules, runGo } from "./go.js";

/** The Go modules' own tests, among them the programs that are killed around the write of an answer. */
describe.for(Object.entries(goModules))("the Go module for %s", ([, folder]) => {
  test("its tests pass, vet has no complaints, and it is formatted", async ({ skip }) => {
    const tested = await runGo(folder, ["test", "./..."]);
    if (!tested.ok) return skip(tested.reason);
    expect(await runGo(folder, ["vet", "./..."])).toEqual({ ok: true, output: "" });
    const gofmt = resolve(programOnPath("go"), "../gofmt");
    expect(await runCommand(gofmt, ["-l", folder], { boundMs: 60_000 })).toBe("");
  });
});
