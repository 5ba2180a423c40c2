import { expect, test } from "vitest";
import { cpuMs } from "../../../test/kit/cpu-time.js";
import { loadFlows } from "../load/load-flows.js";

/** The check of a packet with this schema. */
async function checkOf(schema: object) {
  const document = {
    flowdsl: "1.0",
    info: { title: "T", version: "1" },
    nodes: { A: { operationId: "a", kind: "source", outputs: { out: { packet: "P" } } } },
    components: { packets: { P: schema } },
  };
  const { flows, findings } = await loadFlows({ text: JSON.stringify(document), file: "flow.json" });
  expect(findings.filter(({ severity }) => severity === "error")).toEqual([]);
  const type = flows[0]?.nodes.get("A")?.outputs[0]?.packet;
  return (value: unknown) => type?.check(value).map(({ pointer, message }) => `${pointer} ${message}`) ?? [];
}

const objects = (length: number) => Array.from({ length }, (_, i) => ({ id: i, tags: ["a", { b: i }] }));
const email = "^([a-zA-Z0-9_.-])+@(([a-zA-Z0-9-])+[.])+([a-zA-Z0-9]{2,4})+$";
const deep = (levels: number): unknown => (levels === 0 ? [] : [deep(levels - 1), levels]);
const evil = (length: number) => `a@a.${"a".repeat(length)}!`;
const noMatch = (pattern: string) => `does not match the pattern ${JSON.stringify(pattern)}`;

/** Each took from seconds to years with a backtracking engine. */
test.each<[string, object, unknown, readonly string[]]>([
  ["objects that must differ", { uniqueItems: true }, objects(20_000), []],
  [
    "two of them that do not",
    { uniqueItems: true },
    [...objects(20_000), { tags: ["a", { b: 7 }], id: 7 }],
    [" has equal items at the indexes 7 and 20000"],
  ],
  ["an e-mail pattern", { pattern: email }, evil(40), [` ${noMatch(email)}`]],
  ["the same, with a long text", { pattern: email }, evil(100_000), [` ${noMatch(email)}`]],
  ["an exponential pattern", { pattern: "^(a+)+$" }, `${"a".repeat(50_000)}!`, [` ${noMatch("^(a+)+$")}`]],
  ["names by pattern", { patternProperties: { "^(a|a)*$": false } }, { [`${"a".repeat(50)}!`]: 1 }, []],
  [
    "names that must match",
    { propertyNames: { pattern: "^(a|aa)+$" } },
    { [`${"a".repeat(50)}!`]: 1 },
    [
      ` has a property of the name "${"a".repeat(50)}!", which does not match the schema in "propertyNames"`,
      `/${"a".repeat(50)}! ${noMatch("^(a|aa)+$")}`,
    ],
  ],
  ["the format url", { format: "url" }, `http://${"a".repeat(40)}!`, [' does not have the format "url"']],
  [
    "much that is wrong",
    { items: { type: "string", pattern: email } },
    Array.from({ length: 50_000 }, () => 1),
    Array.from({ length: 10 }, (_, i) => `/${i} must be string, is number`),
  ],
])("%s", async (_, schema, value, problems) => {
  const check = await checkOf(schema);
  check(null);
  let found: readonly string[] = [];
  const spentMs = cpuMs(() => {
    found = check(value);
  });
  expect(spentMs).toBeLessThan(2000);
  expect(found).toEqual(problems);
});

test("nested lists, each with unique items", async () => {
  const check = await checkOf({ uniqueItems: true, items: { $ref: "#/components/packets/P" } });
  const value = [deep(120), ...objects(5000)];
  expect(cpuMs(() => void check(value))).toBeLessThan(2000);
  expect(check(value)).toEqual([]);
});

/** A text of these letters that exceeds every table of states, and ends as the pattern requires. */
function randomText(length: number, seed: number): string {
  let state = seed;
  const letter = () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return (state >> 16) % 2 === 0 ? "a" : "b";
  };
  return `${Array.from({ length }, letter).join("")}a${"b".repeat(400)}`;
}

test("a pattern that takes many steps per character rejects a text that would take too long", async () => {
  const check = await checkOf({ items: { pattern: "[ab]*a[ab]{400}$" } });
  expect(check([randomText(1000, 1)])).toEqual([]);
  expect(check([randomText(30_000, 1)])).toEqual([expect.stringContaining("a string of 30401 characters is too long for its pattern")]);
  const long = Array.from({ length: 200 }, (_, i) => randomText(10_000, i));
  let found: readonly string[] = [];
  const spentMs = cpuMs(() => {
    found = check(long);
  });
  expect(found).toEqual([expect.stringContaining("cannot be checked: its patterns take more than 1000 ms")]);
  expect(spentMs).toBeLessThan(15_000);
});
