import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { command } from "./command.js";
import { folderWith } from "./process.js";

const has = (program: string): boolean => {
  try {
    execFileSync(program, ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

/** What the shell offers for each of these unfinished command lines. One process of the shell for all. */
type Completer = (script: string, lines: readonly string[]) => readonly (readonly string[])[];

const end = "%%%%%";
const cwd = () => folderWith({ "a b.flowdsl.yaml": "" });
const answersIn = (out: string) =>
  out
    .split(`${end}\n`)
    .slice(0, -1)
    .map((part) => part.split("\n").filter((line) => line !== ""));

const bash: Completer = (script, lines) => {
  const asked = lines.map(
    (line) => `COMP_WORDS=(${line}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _onceflow; printf '%s\\n' "\${COMPREPLY[@]}"; echo ${end}`,
  );
  return answersIn(execFileSync("bash", ["-c", `${script}\n${asked.join("\n")}`], { encoding: "utf8", cwd: cwd() }));
};

/** The completion system itself needs a terminal: its functions that offer words print them here, and the shell filters by the current word. */
const zsh: Completer = (script, lines) => {
  const offers = `compadd() { shift; print -rl -- "$@" }; _files() {}; _describe() { print -rl -- "\${(@)\${(@P)2}%%:*}" }`;
  const asked = lines.map((line) => `words=(${line}); CURRENT=$#words; _onceflow | grep -- "^\${words[-1]}"; print -r -- ${end}`);
  const loaded = "autoload -Uz compinit; compinit -D -u";
  return answersIn(
    execFileSync("zsh", ["-f", "-c", `${loaded}\n${script}\n${offers}\n${asked.join("\n")}`], { encoding: "utf8", cwd: cwd() }),
  );
};

const fish: Completer = (script, lines) => {
  const asked = lines.map((line) => `complete -C "${line.replace(/''$/, "")}" | string replace -r '\\t.*' ''; echo ${end}`);
  return answersIn(execFileSync("fish", ["--no-config", "-c", `${script}\n${asked.join("\n")}`], { encoding: "utf8", cwd: cwd() }));
};

describe.each([
  ["bash", bash],
  ["zsh", zsh],
  ["fish", fish],
] as const)("completion in %s", (shell, completer) => {
  test("has every command", async () => {
    const { out, code } = await command("completion", shell);
    expect(code).toBe(0);
    for (const word of [
      "validate",
      "generate",
      "allow-remote",
      "typescript",
      "trigger",
      "dead-letters",
      "keys",
      "migrate",
      "workers",
      "log",
    ])
      expect(out).toContain(word);
  });

  test.skipIf(!has(shell))("completes commands, subcommands, options and values", async () => {
    const { out } = await command("completion", shell);
    const cases: readonly (readonly [string, readonly string[]])[] = [
      ["onceflow va", ["validate"]],
      ["onceflow validate --allow", ["--allow-remote"]],
      ["onceflow generate types", ["typescript"]],
      ["onceflow dead-letters ret", ["retry"]],
      ["onceflow dead-letters retry --al", ["--all"]],
      ["onceflow executions --status d", ["dead"]],
      ["onceflow runs canc", ["cancel"]],
      ["onceflow runs list --status f", ["failed"]],
      ["onceflow runs cancel --if", ["--if-status"]],
      ["onceflow runs cancel --if-status pau", ["paused"]],
      ["onceflow runs fork --keys ''", ["new", "same"]],
      ["onceflow runs retry --only", ["--only-code"]],
      ["onceflow runs list --only", []],
      ["onceflow keys resolve --fr", ["--free"]],
      ["onceflow keys erase --fr", []],
    ];
    const answers = completer(
      out,
      cases.map(([line]) => line),
    );
    expect(cases.map(([line], i) => [line, [...(answers[i] ?? [])].sort()])).toEqual(cases);
  });
});

test.skipIf(!has("bash"))("bash completes file names with spaces, and help", async () => {
  const { out } = await command("completion", "bash");
  expect(bash(out, ["onceflow validate a", "onceflow help gen", "onceflow convert a.yaml --to ''"])).toEqual([
    ["a b.flowdsl.yaml"],
    ["generate"],
    ["yaml", "json"],
  ]);
});
