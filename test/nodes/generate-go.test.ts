import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type FlowPlan, generateGo, loadFlows } from "onceflow/graph";
import { expect, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { runCommand } from "../servers/process/command.js";
import { programOnPath } from "../servers/sources/on-path.js";
import { goModules, runGo } from "./go.js";

const sdk = "github.com/onceflow/onceflow/sdk/go";
const examples = resolve(import.meta.dirname, "../../examples/flows");

/** Names and texts that are special for Go, collide, or try to break the syntax around them. */
const hostile = `flowdsl: "1.0.0"
info: { title: "Hostile \\n*/ \`x\` \\uFEFF package main", version: "1\\n2" }
flows:
  '../../up': { nodes: { A: { operationId: a, kind: source } } }
  internal: { nodes: { A: { operationId: a, kind: source } } }
  x_windows: { nodes: { A: { operationId: a, kind: source } } }
  names:
    nodes:
      Func: { operationId: func, kind: source, summary: "ends */ here \\n// and \`goes\` on", outputs: [{ name: type, message: Keywords }, { name: Type, message: Tree }, { name: "9" }] }
      Main: { operationId: main, kind: source, outputs: [{ name: out, message: Hostile }] }
      Proto: { operationId: __proto__, kind: source, outputs: [{ name: ünï }] }
      Charge: { operationId: charge_payment, kind: action, inputs: [{ name: context, message: Order }, { name: settings }, { name: "9", message: Tree }], outputs: [{ name: out, message: Order }] }
      ChargeInput: { operationId: charge_payment_input, kind: action, inputs: [{ name: packet, message: "Charge-Payment" }] }
      Ünïcode: { operationId: ünïcode, kind: terminal }
components:
  packets:
    Keywords: { type: object, required: [func, range], properties: { func: { type: string }, range: { type: integer }, map: { type: array, items: { type: string } }, "123": { type: boolean }, string: {}, nil: { type: "null" } } }
    Hostile:
      type: object
      required: ["a\\"b"]
      properties:
        'a"b': { type: string }
        "c,d": { type: integer }
        "-": { type: string }
        ü: { type: string, description: "a text\\n\\n  - list\\n\\tindented\\n# heading" }
        extra: { type: string }
        id: { type: string }
        ID: { type: string }
        i_d: { type: string }
        marshal_json: { type: boolean }
    "Charge-Payment": { type: object, additionalProperties: { type: integer }, properties: { kind: { enum: [a, b-c, "ü", "", "1", B_C] }, mixed: { enum: [a, 1] }, none: { enum: [] }, maybe: { enum: [x, null] } } }
    Order:
      description: An order.
      allOf:
        - { $ref: "#/components/packets/Base" }
        - { type: object, required: [lines], properties: { lines: { type: array, items: { type: object, required: [sku], properties: { sku: { type: string }, count: { type: integer } } } } } }
    Base: { type: object, required: [id, status], properties: { id: { type: integer }, status: { enum: [open, paid] }, note: { type: [string, "null"] }, tags: { type: object, additionalProperties: { type: string } } } }
    Tree:
      type: object
      required: [self]
      properties:
        self: { $ref: "#/components/packets/Tree" }
        up: { anyOf: [{ $ref: "#/components/packets/Tree" }, { type: "null" }] }
        down: { type: array, items: { $ref: "#/components/packets/Tree" } }
        one: { oneOf: [{ type: string }, { type: integer }] }
        list: { $ref: "#/components/packets/List" }
    List: { type: array, items: { $ref: "#/components/packets/List" } }
`;

/** The document of the guide, and the function that it shows. */
const guide = readFileSync(resolve(import.meta.dirname, "../../docs/guide/nodes-in-go.md"), "utf8");
const [, guideDocument = "", guideFunction = ""] = /```yaml\n(.*?)```.*?```\n(func .*?)```/s.exec(guide) ?? [];
const guideProvider = `package main

import "context"

type payments struct{}

func (payments) Charge(context.Context, int64, string) (string, error) { return "ch_1", nil }

var provider payments
`;

/** A test in Go: packets pass through the generated types and nodes. */
const goTest = `package main

import (
	"context"
	"testing"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
)

func deliver(t *testing.T, id, port, text string, options ...flowdsl.MockOption) (flowdsl.NodeOutput, error) {
	t.Helper()
	packet, err := flowdsl.PacketFromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range []flowdsl.Node{nodeChargePayment(), nodeChargePaymentInput2()} {
		if node.OperationID() == id {
			return flowdsl.Deliver(context.Background(), node, flowdsl.MockNodeInput(port, packet, options...))
		}
	}
	t.Fatalf("no node %s", id)
	return flowdsl.NodeOutput{}, nil
}

func TestGeneratedNodes(t *testing.T) {
	order := \`{"id":9007199254740993,"lines":[{"sku":"s","count":2}],"note":null,"status":"open","tags":{"a":"b"}}\`
	output, err := deliver(t, "charge_payment", "context", order)
	if err != nil {
		t.Fatal(err)
	}
	want := \`{"id":9007199254740993,"lines":[{"count":2,"sku":"s"}],"status":"paid","tags":{"a":"b"}}\`
	packet, _ := flowdsl.PacketFromJSON(output.Sent()[0].Data)
	if got, _ := packet.MarshalJSON(); string(got) != want || output.Sent()[0].Port != "out" {
		t.Errorf("got %s", got)
	}
	if _, err := deliver(t, "charge_payment", "context", \`{"id":"x"}\`); flowdsl.CodeOf(err) != flowdsl.ErrCodeValidation {
		t.Error(err)
	}
	if _, err := deliver(t, "charge_payment_input", "other", "{}"); flowdsl.CodeOf(err) != flowdsl.ErrCodeInputMissing {
		t.Error(err)
	}
	if _, err := deliver(t, "charge_payment_input", "packet", \`{"kind":"a","more":5}\`); flowdsl.CodeOf(err) != flowdsl.ErrCodePermanent {
		t.Error(err)
	}
}
`;
const chargePayment = `func ChargePayment(ctx context.Context, input ChargePaymentInput, output *ChargePaymentOutput) error {
	order := *input.Context2
	order.Status = OrderStatusPaid
	if input.Has("settings") || input.Port9 != nil {
		return flowdsl.NewNodeError(flowdsl.ErrCodePermanent, "these ports are empty", nil)
	}
	output.SendOut(order)
	return nil
}
`;

async function plans(): Promise<readonly FlowPlan[]> {
  const files = readdirSync(examples).filter((name) => name.includes(".flowdsl."));
  const loaded = await Promise.all([
    ...files.map((name) => loadFlows(join(examples, name))),
    loadFlows({ text: hostile }),
    loadFlows({ text: guideDocument }),
  ]);
  expect(loaded.flatMap(({ findings }) => findings.filter(({ severity }) => severity === "error"))).toEqual([]);
  return loaded.flatMap(({ flows }) => flows);
}

test("the names of files stay in their folder, are unique, and are not special for Go", async () => {
  const files = (await plans()).flatMap(generateGo);
  for (const { name } of files) expect(name).toMatch(/^[a-z][\w-]*\/(?:types|nodes|main)\.go$/i);
  expect(new Set(files.map(({ name }) => name)).size).toBe(files.length);
  expect(files.map(({ name }) => name)).toContain("flowinternal/main.go");
});

test("generated Go is formatted, compiles, and runs", async ({ skip }) => {
  const folder = temporaryFolder(onTestFinished);
  const version = await runGo(folder, ["version"]);
  if (!version.ok) return skip(version.reason);
  const put = (name: string, text: string) => {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  };
  const files = new Map((await plans()).flatMap(generateGo).map(({ name, text }) => [name, text]));
  for (const [name, text] of files) put(name, text);
  put("go.mod", `module generated\n\ngo 1.23\n\nrequire ${sdk} v0.1.0\n\nreplace ${sdk} => ${goModules.http}\n`);
  const written = (name: string, operationId: string, code: string) => {
    const stub = new RegExp(`func \\w+\\(.*\\n.*"${operationId} is not implemented yet".*\\n}\\n`);
    expect(files.get(name)).toMatch(stub);
    put(name, (files.get(name) ?? "").replace(stub, code));
  };
  // The stubs compile, too: they are the same in the other flows.
  written("names/nodes.go", "charge_payment", chargePayment);
  written("orders/nodes.go", "charge_payment", guideFunction);
  put("orders/provider.go", guideProvider);
  put("names/generated_test.go", goTest);
  expect(await runCommand(resolve(programOnPath("go"), "../gofmt"), ["-d", folder], { boundMs: 60_000 })).toBe("");
  expect(await runGo(folder, ["vet", "./..."])).toEqual({ ok: true, output: "" });
  expect(await runGo(folder, ["test", "./names"])).toMatchObject({ ok: true });
});
