import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { runGo } from "../nodes/go.js";
import { runCommand } from "../servers/process/command.js";
import { findPython } from "../servers/sources/python.js";
import { goModule, languages, pythonEnv } from "./languages.js";
import { clientScene, token } from "./scene.js";

const guide = readFileSync(resolve(import.meta.dirname, "../../docs/guide/other-languages.md"), "utf8");

/** The program of the guide in a language, with the address of the test's server, and the lines that its comments name. */
function programOf(tag: "python" | "go", url: string) {
  const [, code = ""] = new RegExp(`\`\`\`${tag}\n(.*?)\`\`\``, "s").exec(guide) ?? [];
  expect(code).toContain("http://127.0.0.1:4000/onceflow");
  const printed = [...code.matchAll(/(?:#|\/\/) → (.*)/g)].map(([, line]) => line);
  expect(printed.length).toBeGreaterThan(0);
  return { code: code.replace("http://127.0.0.1:4000/onceflow", url), printed: `${printed.join("\n")}\n` };
}

test.for(languages)("the program of the guide in $name prints what its comments say", async (language, { skip }) => {
  if (!language.program.ok) return skip(language.program.reason);
  const scene = await clientScene({ language });
  const url = `${scene.proxy.url}onceflow`;
  const folder = temporaryFolder(onTestFinished);
  const env = { ...process.env, ...pythonEnv, BILLING_TOKEN: token };
  if (language.name === "Python") {
    const { code, printed } = programOf("python", url);
    writeFileSync(join(folder, "charge.py"), code);
    const python = await findPython();
    const ran = await runCommand(python.ok ? python.path : "python3", ["charge.py"], { boundMs: 60_000, cwd: folder, env });
    expect(ran).toBe(printed);
  } else {
    const { code, printed } = programOf("go", url);
    goModule(folder, { "main.go": code });
    expect(await runGo(folder, ["vet", "./..."])).toEqual({ ok: true, output: "" });
    const built = await runGo(folder, ["build", "-o", "program", "."]);
    expect(built.ok).toBe(true);
    expect(await runCommand(join(folder, "program"), [], { boundMs: 60_000, env })).toBe(printed);
  }
});

test("the table of options names every option of the Python client", () => {
  const client = readFileSync(resolve(import.meta.dirname, "../../clients/onceflow.py"), "utf8");
  const [, signature = ""] = /def once\(\n(.*?)\n {4}\) -> Result/s.exec(client) ?? [];
  const options = [...signature.matchAll(/^ {8}(\w+):/gm)].map(([, name = ""]) => name).filter((name) => name !== "handler");
  expect(options.length).toBeGreaterThan(10);
  for (const option of options) expect(guide).toContain(`\`${option}\``);
});

test("the table of errors names every error of both clients", () => {
  const python = readFileSync(resolve(import.meta.dirname, "../../clients/onceflow.py"), "utf8");
  const go = readFileSync(resolve(import.meta.dirname, "../../clients/onceflow.go"), "utf8");
  const errors = [...python.matchAll(/^class (\w+Error)\(OnceflowError\)/gm), ...go.matchAll(/^\t(Err\w+) error = /gm)].map(
    ([, name]) => name,
  );
  expect(errors.length).toBeGreaterThan(20);
  for (const error of errors) expect(guide).toContain(`\`${error}\``);
});
