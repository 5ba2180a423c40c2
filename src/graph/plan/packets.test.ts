import { describe, expect, test } from "vitest";
import { loadFlows } from "../load/load-flows.js";

/** The packet P of a flow with these components. */
async function packet(packets: string) {
  const text = `flowdsl: "1.0"
info: { title: T, version: "1" }
nodes: { A: { operationId: a, kind: source, outputs: { out: { packet: P } } } }
components:
  packets:
${packets.replace(/^/gm, "    ")}
`;
  const { flows, findings } = await loadFlows({ text });
  return { type: flows[0]?.nodes.get("A")?.outputs[0]?.packet, findings: findings.filter(({ severity }) => severity === "error") };
}

test.each<[string, unknown, readonly string[]]>([
  ["P: { type: object, required: [a] }", { a: 1 }, []],
  ["P: { type: object, required: [a] }", {}, [""]],
  ["P: { type: object, properties: { a: { type: integer } } }", { a: 1.5 }, ["/a"]],
  ["P: { properties: { a: { $ref: '#/components/packets/Q' } } }\nQ: { type: string }", { a: 1 }, ["/a"]],
  ["P: { $ref: '#/components/packets/Q' }\nQ: { type: string }", "a", []],
  ["P: { properties: { a: { $ref: '#/definitions/D' } }, definitions: { D: { enum: [x, y] } } }", { a: "z" }, ["/a"]],
  ["P: { $ref: '#/definitions/D', definitions: { D: { items: { $ref: '#/definitions/E' } }, E: { type: string } } }", ["a", 1], ["/1"]],
  [
    "P: { properties: { child: { $ref: '#/components/packets/P' }, n: { type: number } } }",
    { child: { child: { n: "x" } } },
    ["/child/child/n"],
  ],
  ["P: { items: { minimum: 3 } }", [5, 2], ["/1"]],
  ["P: { oneOf: [{ type: string }, { type: number }] }", true, ["", "", ""]],
  ["P: { type: string, nullable: true }", null, []],
  ["P: { minimum: 3, exclusiveMinimum: true }", 3, [""]],
  ["P: { format: email, $id: 'https://elsewhere.example/x', unknown: [1] }", "a@b.example", []],
  ["P: { additionalProperties: false, properties: { id: {}, $id: {} } }", { id: 1, $id: 2 }, []],
  ["P: { dependencies: { type: { $ref: '#/components/packets/Q' }, id: [b] } }\nQ: { required: [b] }", { type: 1, id: 1, b: 1 }, []],
  [
    "P: { definitions: { D: { type: string } }, properties: { a: { $id: 'https://a.example/x', definitions: { D: { type: number } }, properties: { b: { $ref: '#/definitions/D' } } } } }",
    { a: { b: 1 } },
    [],
  ],
  [
    "P: { definitions: { D: { type: string } }, properties: { a: { $id: 'https://a.example/x', properties: { b: { $ref: '#/definitions/D' } } } } }",
    { a: { b: 1 } },
    ["/a/b"],
  ],
  ["P: false", 1, [""]],
  ["P: true", 1, []],
])("%s of %j: %j", async (packets, data, pointers) => {
  const { type, findings } = await packet(packets);
  expect(findings).toEqual([]);
  expect(type?.check(data).map(({ pointer }) => pointer)).toEqual(pointers);
});

test("rejects a reference to an anchor", async () => {
  const { findings } = await packet("P: { properties: { a: { $ref: '#name' } }, definitions: { D: { $id: '#name', type: string } } }");
  expect(findings.map(({ code }) => code)).toEqual(["FLOW_BAD_REF"]);
});

describe("rejects schemas that cannot be checked in bounded time:", () => {
  const doubling = Array.from(
    { length: 30 },
    (_, i) => `D${i}: { allOf: [{ $ref: '#/components/packets/D${i + 1}' }, { $ref: '#/components/packets/D${i + 1}' }] }`,
  );
  test.each([
    ["itself", "P: { $ref: '#/components/packets/P' }"],
    ["itself through another", "P: { anyOf: [{ $ref: '#/components/packets/Q' }] }\nQ: { not: { $ref: '#/components/packets/P' } }"],
    ["two to the thirty", `P: { $ref: '#/components/packets/D0' }\n${doubling.join("\n")}\nD30: { type: string }`],
  ])("%s", async (_, packets) => {
    const { findings } = await packet(packets);
    expect(findings.map(({ code }) => code)).toContain("FLOW_BAD_SCHEMA");
  });
});

test("a circular packet or one that is not JSON is a problem, not a crash", async () => {
  const { type } = await packet("P: { properties: { child: { $ref: '#/components/packets/P' } } }");
  let deep: unknown = {};
  for (let i = 0; i < 100_000; i += 1) deep = { child: deep };
  expect(type?.check(deep)).toHaveLength(1);
  expect(type?.check({ child: () => 1 })).toHaveLength(1);
  expect(type?.check(undefined)).toHaveLength(1);
});

test("limits the number of problems", async () => {
  const { type } = await packet("P: { items: { type: string } }");
  expect(type?.check(Array.from({ length: 1000 }, (_, i) => i))).toHaveLength(10);
});

test("valid packets share one empty list of problems", async () => {
  const { type } = await packet(
    "P: { type: object, required: [a], properties: { a: { oneOf: [{ type: string }, { type: number, minimum: 1 }] } } }",
  );
  expect(type?.check({ a: 1 })).toBe(type?.check({ a: "b" }));
  expect(type?.check({ a: 0 })).not.toEqual([]);
});
