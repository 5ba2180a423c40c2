import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { loadFlows } from "onceflow/graph";
import { describe, expect, test } from "vitest";
import { skips } from "./json-schema-suite-skips.js";

/** A schema, and values with the results that the draft requires. */
interface Group {
  readonly description: string;
  readonly schema: unknown;
  readonly tests: readonly { readonly description: string; readonly data: unknown; readonly valid: boolean }[];
}

const folder = join(import.meta.dirname, "../fixtures/json-schema-test-suite/draft7");
const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".json"));
const groupsOf = (file: string) => JSON.parse(readFileSync(join(folder, file), "utf8")) as readonly Group[];

function skipOf(file: string, group: Group) {
  return skips.find(({ groups }) => groups[file] === "all" || groups[file]?.includes(group.description));
}

/** Loads the schema as a packet of a document, so that loading and planning are tested too. */
async function load(schema: unknown) {
  const document = {
    flowdsl: "1.0",
    info: { title: "T", version: "1" },
    nodes: { A: { operationId: "a", kind: "source", outputs: { out: { packet: "P" } } } },
    components: { packets: { P: schema } },
  };
  const { flows, findings } = await loadFlows({ text: JSON.stringify(document), file: "flow.json" });
  const errors = findings.filter(({ severity }) => severity === "error").map(({ code }) => code);
  return { errors, packet: flows[0]?.nodes.get("A")?.outputs[0]?.packet };
}

/** The results of the checks, with their messages. */
async function answers({ schema, tests }: Group) {
  const { errors, packet } = await load(schema);
  expect(errors).toEqual([]);
  return tests.map(({ description, data }) => ({ description, problems: packet?.check(data).map(({ message }) => message) }));
}

describe.each(files)("%s", (file) => {
  const groups = groupsOf(file);

  test.each(groups.filter((group) => skipOf(file, group) === undefined))("$description", async (group) => {
    const said = await answers(group);
    const valid = said.map(({ description, problems }) => ({ description, valid: problems?.length === 0 }));
    expect(valid).toEqual(group.tests.map(({ description, valid: demanded }) => ({ description, valid: demanded })));
    expect(said.filter(({ problems }) => problems?.includes("does not match its schema"))).toEqual([]);
  });

  for (const group of groups) {
    const skip = skipOf(file, group);
    if (skip === undefined) continue;
    const { instead, reason } = skip;
    if (instead === "note")
      test(`${group.description}: ${reason}`, async () => {
        const said = await answers(group);
        expect(said.filter(({ problems }) => problems?.length !== 0)).toEqual([]);
      });
    else
      test(`${group.description}: ${reason}`, async () => {
        const { errors } = await load(group.schema);
        expect(errors).not.toEqual([]);
        expect(errors.filter((code) => !instead.refused.includes(code))).toEqual([]);
      });
  }
});

test("every skip names cases that exist in the suite", () => {
  const named = skips.flatMap(({ groups }) => Object.entries(groups));
  const missing = named.flatMap(([file, groups]) => {
    if (!files.includes(file)) return [file];
    const known = groupsOf(file).map(({ description }) => description);
    return groups === "all" ? [] : groups.filter((group) => !known.includes(group)).map((group) => `${file}: ${group}`);
  });
  expect(missing).toEqual([]);
});
