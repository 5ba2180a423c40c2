import { chmodSync, existsSync, lstatSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { folderWith, onceflow } from "./process.js";

const root = resolve(import.meta.dirname, "../..");
const examples = join(root, "examples/flows");
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };

const good = 'flowdsl: "1.0"\ninfo: { title: Good, version: "1" }\nnodes: { A: { operationId: a, kind: source } }\n';
const odd = good.replace("nodes:", "colour: red\nnodes:");
const bad = good.replace("kind: source", "kind: sorce");
const refersTo = (document: string) =>
  `${good.replace("source }", "source, outputs: { out: { packet: asyncapi#/components/messages/M } } }")}externalDocs: { asyncapi: ${document} }\n`;

describe("conformance", () => {
  /** A server that ignores keys and executes every request. */
  async function forgetful(): Promise<string> {
    let made = 0;
    const server = createServer((request, response) => {
      request.resume().once("end", () => {
        made += 1;
        response.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify({ id: made, for: request.headers["x-for"] }));
      });
    });
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    onTestFinished(() => void server.close());
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/orders`;
  }

  test("reports a server's faults as a table or as JSON", async () => {
    const url = await forgetful();
    const { code, out } = await onceflow(["conformance", "http", url, "--header", "x-for: me"]);
    expect(code).toBe(1);
    expect(out).toMatch(/^Idempotency keys at http/);
    expect(out).toMatch(/^ {2}failed {3}replay/m);
    expect(out).toContain("does not conform: ");
    const asked = await onceflow(["conformance", "http", url, "--key-optional", "--json"]);
    const report = JSON.parse(asked.out) as { passed: boolean; cases: { name: string; verdict: string }[] };
    expect([asked.code, report.passed]).toEqual([1, false]);
    expect(report.cases.some(({ verdict }) => verdict === "failed")).toBe(true);
  });

  test("reports why it cannot run", async () => {
    expect(await onceflow(["conformance", "smtp", "http://127.0.0.1:1/"])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/unknown suite "smtp"/),
    });
    expect(await onceflow(["conformance", "http", "nowhere"])).toMatchObject({ code: 2, err: expect.stringMatching(/not a URL/) });
    expect(await onceflow(["conformance", "http", "http://127.0.0.1:1/", "--header", "none"])).toMatchObject({ code: 2 });
  });
});

describe("validate", () => {
  test("prints the place, the problem and the remedy in columns", async () => {
    const folder = folderWith({
      "a.flowdsl.yaml": bad,
      "deeper/longer-name.flowdsl.yml": odd,
      "node_modules/x.flowdsl.yaml": bad,
      "notes.yaml": "a: [",
    });
    const { code, out } = await onceflow(["validate", "."], folder);
    expect(code).toBe(1);
    expect(
      out,
    ).toBe(`a.flowdsl.yaml:3:37                 error    FLOW_BAD_VALUE      /nodes/A/kind  "sorce" is not allowed; allowed values: source, transform, router, llm, action, checkpoint, publish, terminal, integration, subworkflow; did you mean "source"?
deeper/longer-name.flowdsl.yml:3:1  warning  FLOW_UNKNOWN_FIELD  /colour        unknown field "colour"; remove it, or prefix its name with x-

2 files, 1 error, 1 warning
`);
  });

  test("does not fail for warnings, and fails for a missing file", async () => {
    const folder = folderWith({ "odd.yaml": odd });
    expect(await onceflow(["validate", "odd.yaml"], folder)).toMatchObject({ code: 0, err: "" });
    expect(await onceflow(["validate", "no.yaml"], folder)).toMatchObject({
      code: 1,
      out: expect.stringContaining("FLOW_UNREADABLE") as string,
    });
  });

  test("--json prints machine-readable findings", async () => {
    const folder = folderWith({
      "a.flowdsl.yaml": bad,
      "b.flowdsl.json": JSON.stringify({ flowdsl: "1.0", info: { title: "B", version: "1" }, nodes: {} }),
    });
    const { code, out } = await onceflow(["validate", "--json", "a.flowdsl.yaml", "b.flowdsl.json"], folder);
    expect(code).toBe(1);
    expect(JSON.parse(out)).toMatchObject({
      ok: false,
      errors: 1,
      files: [
        {
          file: "a.flowdsl.yaml",
          ok: false,
          flows: [],
          findings: [
            { code: "FLOW_BAD_VALUE", severity: "error", line: 3, column: 37, pointer: "/nodes/A/kind", fix: 'did you mean "source"?' },
          ],
        },
        { file: "b.flowdsl.json", ok: true, flows: [{ id: "b", nodes: 0, edges: 0 }] },
      ],
    });
  });

  test("--sarif prints a report that code hosts accept", async () => {
    const { code, out } = await onceflow(["validate", "--sarif", "a b.yaml"], folderWith({ "a b.yaml": bad }));
    expect(code).toBe(1);
    const sarif = JSON.parse(out) as { runs: { tool: { driver: { rules: { id: string }[] } }; results: { ruleIndex: number }[] }[] };
    expect(sarif).toMatchObject({
      version: "2.1.0",
      runs: [
        {
          tool: { driver: { name: "onceflow" } },
          results: [
            {
              ruleId: "FLOW_BAD_VALUE",
              level: "error",
              locations: [{ physicalLocation: { artifactLocation: { uri: "a%20b.yaml" }, region: { startLine: 3, startColumn: 37 } } }],
            },
          ],
        },
      ],
    });
    const [run] = sarif.runs;
    expect(run?.tool.driver.rules[run.results[0]?.ruleIndex ?? -1]?.id).toBe("FLOW_BAD_VALUE");
  });

  test("--sarif encodes every file name as a URI", async () => {
    const folder = folderWith({ "a#b?c:d/ü 1.flowdsl.yaml": bad, "api.yaml": "components: [\n", "c.flowdsl.yaml": refersTo("./api.yaml") });
    const absolute = join(folder, "c.flowdsl.yaml");
    const { out } = await onceflow(["validate", "--sarif", "a#b?c:d", absolute], folder);
    const uris = [...out.matchAll(/"uri": "(.*)"/g)].map(([, uri]) => uri);
    expect(uris).toContain("a%23b%3Fc%3Ad/%C3%BC%201.flowdsl.yaml");
    expect(uris).toContain(pathToFileURL(join(folder, "api.yaml")).href);
  });

  test("a finding in another document has the path of that document, relative to the current folder", async () => {
    const folder = folderWith({ "flows/api.yaml": "components: [\n", "flows/c.flowdsl.yaml": refersTo("./api.yaml") });
    expect((await onceflow(["validate", "flows"], folder)).out).toMatch(/^flows\/api\.yaml:2:1 +error +FLOW_SYNTAX/m);
  });

  test("columns are aligned for all characters in names, and control characters are escaped", async () => {
    const folder = folderWith({ "日本語.flowdsl.yaml": bad, "e\u0301🙂.flowdsl.yaml": bad, "a\u001b[31m\n.flowdsl.yaml": bad });
    const { out } = await onceflow(["validate", "."], folder);
    expect(out.split("\n").slice(0, 3)).toEqual([
      expect.stringMatching(/^a \[31m \.flowdsl\.yaml:3:37 {2}error/) as string,
      expect.stringMatching(/^e\u0301🙂\.flowdsl\.yaml:3:37 {6}error/) as string,
      expect.stringMatching(/^日本語\.flowdsl\.yaml:3:37 {3}error/) as string,
    ]);
  });

  test("a symbolic link in a folder is a document too, and a document that is reached twice is checked once", async () => {
    const folder = folderWith({ "in/a.flowdsl.yaml": odd, "out/b.flowdsl.yaml": odd });
    symlinkSync("../out/b.flowdsl.yaml", join(folder, "in/linked.flowdsl.yaml"));
    symlinkSync("a.flowdsl.yaml", join(folder, "in/twice.flowdsl.yaml"));
    symlinkSync("..", join(folder, "in/up"));
    expect((await onceflow(["validate", "in", "in/a.flowdsl.yaml"], folder)).out).toContain("2 files, 0 errors");
    symlinkSync("nowhere", join(folder, "in/z.flowdsl.yaml"));
    const { code, out } = await onceflow(["validate", "in"], folder);
    expect([code, out]).toEqual([1, expect.stringContaining("cannot be read: no such file")]);
  });

  test("the examples have no errors", async () => {
    // One example has an edge of mode stream, for which the runtime has a substitute.
    const { code, out } = await onceflow(["validate", examples]);
    expect([code, out.match(/ warning .*/g), out.endsWith("3 files, 0 errors, 1 warning\n")]).toEqual([
      0,
      [expect.stringMatching(/FLOW_UNSUPPORTED.*substitutes: \["stream"\]/)],
      true,
    ]);
  });
});

describe("convert", () => {
  test("converts to the other dialect and back, by the file names", async () => {
    const folder = folderWith({ "a.yaml": readFileSync(join(examples, "email-triage.flowdsl.yaml"), "utf8") });
    expect(await onceflow(["convert", "a.yaml", "-o", "b.json"], folder)).toEqual({ code: 0, out: "", err: "" });
    expect(JSON.parse(readFileSync(join(folder, "b.json"), "utf8"))).toMatchObject({ flowdsl: "1.0", info: { title: "Email triage" } });
    const { out } = await onceflow(["convert", "b.json"], folder);
    writeFileSync(join(folder, "c.yaml"), out);
    const again = await onceflow(["convert", "c.yaml", "--to", "json"], folder);
    expect(again.out).toBe(readFileSync(join(folder, "b.json"), "utf8"));
  });

  test("writes nothing if the document cannot be read", async () => {
    const folder = folderWith({ "a.yaml": "a: [" });
    const { code, out } = await onceflow(["convert", "a.yaml", "-o", "b.json", "--json"], folder);
    expect(code).toBe(1);
    expect(JSON.parse(out)).toMatchObject({ ok: false, to: "json", findings: [{ code: "FLOW_SYNTAX" }] });
    expect(existsSync(join(folder, "b.json"))).toBe(false);
    expect((await onceflow(["convert", "a.yaml", "--json"], folder)).code).toBe(2);
  });
});

describe("format", () => {
  test("--check changes nothing and lists the files that would change", async () => {
    const text = 'info: {title: T,   version: "1"} # it\nflowdsl: "1.0"\nnodes: {}\n';
    const folder = folderWith({ "a.flowdsl.yaml": text, "b.flowdsl.yaml": good });
    const check = await onceflow(["format", "--check", "."], folder);
    expect(check).toEqual({ code: 1, out: "a.flowdsl.yaml  would be changed\n2 files, 1 would be changed\n", err: "" });
    expect(readFileSync(join(folder, "a.flowdsl.yaml"), "utf8")).toBe(text);
    expect((await onceflow(["format", "."], folder)).code).toBe(0);
    expect(readFileSync(join(folder, "a.flowdsl.yaml"), "utf8")).toBe('flowdsl: "1.0"\ninfo: { title: T, version: "1" } # it\nnodes: {}\n');
    const again = await onceflow(["format", "--check", "--json", "."], folder);
    expect(again.code).toBe(0);
    expect(JSON.parse(again.out)).toMatchObject({ ok: true, files: [{ changed: false }, { changed: false }] });
  });

  test("keeps symbolic links and file modes", async () => {
    const folder = folderWith({ "real.yaml": "b: 1\nflowdsl:   '1.0'\n" });
    chmodSync(join(folder, "real.yaml"), 0o600);
    symlinkSync("real.yaml", join(folder, "link.yaml"));
    expect((await onceflow(["format", "link.yaml"], folder)).code).toBe(0);
    expect(lstatSync(join(folder, "link.yaml")).isSymbolicLink()).toBe(true);
    expect(statSync(join(folder, "real.yaml")).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(folder, "real.yaml"), "utf8")).toBe("flowdsl: '1.0'\nb: 1\n");
    expect(readdirSync(folder).sort()).toEqual(["link.yaml", "real.yaml"]);
  });

  test("leaves a file in another encoding unchanged", async () => {
    const folder = folderWith({});
    const latin1 = Buffer.from(`${odd}x-a: caf\u00e9\n`, "latin1");
    writeFileSync(join(folder, "a.flowdsl.yaml"), latin1);
    const { code, out } = await onceflow(["format", "."], folder);
    expect([code, out]).toEqual([1, expect.stringContaining("it is not UTF-8")]);
    expect(readFileSync(join(folder, "a.flowdsl.yaml")).equals(latin1)).toBe(true);
    expect(await onceflow(["convert", "a.flowdsl.yaml", "-o", "a.json"], folder)).toMatchObject({ code: 1 });
    expect(readdirSync(folder)).toEqual(["a.flowdsl.yaml"]);
  });

  test("leaves a file with errors unchanged", async () => {
    const folder = folderWith({ "a.flowdsl.yaml": "a: [" });
    expect((await onceflow(["format", "a.flowdsl.yaml"], folder)).code).toBe(1);
    expect(readFileSync(join(folder, "a.flowdsl.yaml"), "utf8")).toBe("a: [");
  });
});

describe("generate", () => {
  test("writes stubs once and types every time", async () => {
    const folder = folderWith({});
    const args = ["generate", "typescript", join(examples, "email-triage.flowdsl.yaml"), "--output", join(folder, "out")];
    const first = await onceflow([...args, "--json"]);
    expect(JSON.parse(first.out)).toMatchObject({ ok: true, files: [{ written: true }, { written: true }] });
    const stubs = join(folder, "out/email_triage.nodes.ts");
    writeFileSync(stubs, "// mine\n");
    expect((await onceflow(args)).out).toMatch(/types\.ts +written\n.*nodes\.ts +kept: the file exists/);
    expect(readFileSync(stubs, "utf8")).toBe("// mine\n");
    await onceflow([...args, "--force"]);
    expect(readFileSync(stubs, "utf8")).toContain("export const sendSmsAlert: SendSmsAlert");
  });

  test("prints a page, and nothing for a document with errors", async () => {
    expect((await onceflow(["generate", "docs", join(examples, "document-summary.flowdsl.yaml")])).out).toContain(
      "```mermaid\nflowchart TD",
    );
    const broken = await onceflow(["generate", "docs", "a.yaml"], folderWith({ "a.yaml": bad }));
    expect(broken).toMatchObject({ code: 1, out: "", err: expect.stringContaining("FLOW_BAD_VALUE") as string });
  });
});

describe("usage", () => {
  test.each([
    [[]],
    [["nonsense"]],
    [["validate"]],
    [["validate", "--nonsense", "a"]],
    [["generate", "rust", "a"]],
    [["completion", "tcsh"]],
  ])("%j is not understood: 2", async (args) => {
    const { code, out, err } = await onceflow(args);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).not.toBe("");
  });

  test("a folder without flows is a usage error with exit code 2", async () => {
    expect(await onceflow(["validate", "."], folderWith({}))).toMatchObject({
      code: 2,
      err: "paths: no .flowdsl.yaml, .yml or .json files in .\n",
    });
  });

  test("an error of the file system prints one line, with exit code 1", async () => {
    const folder = folderWith({ "a.yaml": odd, "folder/b.yaml": odd });
    symlinkSync("self", join(folder, "self"));
    const wrong: readonly (readonly [string[], RegExp])[] = [
      [["convert", "a.yaml", "-o", "folder"], /^\[onceflow\] cannot write folder: it is a folder$/],
      [["convert", "a.yaml", "-o", "none/a.json"], /^\[onceflow\] cannot write none\/a\.json: its folder does not exist$/],
      [
        ["generate", "typescript", "a.yaml", "-o", "a.yaml"],
        /^\[onceflow\] cannot write a\.yaml\/good\.types\.ts: a file has the name of its folder/,
      ],
      [["validate", "self", "a.yaml/below"], /^$/],
    ];
    const ran = await Promise.all(wrong.map(async ([args, why]) => ({ args, why, ...(await onceflow(args, folder)) })));
    for (const { args, why, code, err } of ran) expect([args, code, err.trim()]).toEqual([args, 1, expect.stringMatching(why)]);
    expect(ran.at(-1)?.out).toMatch(
      /^self:1:1 +error +FLOW_UNREADABLE +\/ +cannot be read: ELOOP.*\na\.yaml\/below:1:1 +error .*no such file/,
    );
    expect(readdirSync(folder).sort()).toEqual(["a.yaml", "folder", "self"]);
  });

  test("with --json an error is one JSON document too", async () => {
    const folder = folderWith({ "a.yaml": odd });
    const wrong: readonly (readonly [string[], number, string])[] = [
      [["validate", "--json"], 2, "INVALID_INPUT"],
      [["validate", "--json", "."], 2, "INVALID_INPUT"],
      [["convert", "--json", "a.yaml"], 2, "INVALID_INPUT"],
      [["convert", "--json", "a.yaml", "-o", "."], 1, "UNWRITABLE"],
      [["generate", "rust", "--json", "a.yaml"], 2, "USAGE"],
      [["run", "none.yaml", "--nodes", "none.ts", "--json"], 2, "FLOW_INVALID"],
      [["trigger", "t", "--json"], 2, "INVALID_INPUT"],
      [["trigger", "t", "--json", "--url", "http://user:hunter2@127.0.0.1:1"], 2, "BAD_URL"],
      [["executions", "--json"], 2, "STORE_MISSING"],
      [["executions", "--json", "--store", "sqlite:%"], 2, "INVALID_INPUT"],
      [["runs", "r-1", "--json", "--store", "memory:"], 1, "NOT_FOUND"],
      [["conformance", "smtp", "x", "--json"], 2, "INVALID_INPUT"],
    ];
    const ran = await Promise.all(wrong.map(async ([args]) => ({ args, ...(await onceflow(args, folder)) })));
    expect(
      ran.map(({ args, code, out }) => {
        const { ok, error } = JSON.parse(out) as { ok: boolean; error: { code: string; message: string } };
        expect([ok, error.message.length > 5]).toEqual([false, true]);
        return [args, code, error.code];
      }),
    ).toEqual(wrong);
    for (const { out, err } of ran) expect(out + err).not.toMatch(/hunter2|^\s+at /m);
    expect(readdirSync(folder)).toEqual(["a.yaml"]);
  });

  test("help and version", async () => {
    expect(await onceflow(["--version"])).toEqual({ code: 0, out: `${version}\n`, err: "" });
    const help = await onceflow(["--help"]);
    expect(help.code).toBe(0);
    for (const name of ["validate", "convert", "format", "generate", "completion"]) expect(help.out).toContain(name);
    expect((await onceflow(["validate", "--help"])).out).toContain("--sarif");
  });
});
