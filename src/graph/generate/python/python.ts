import type { FlowPlan, PlannedNode, PlannedPort } from "../../plan/plan.js";
import type { GeneratedFile } from "../generated-file.js";
import { Names } from "../names.js";
import { pascalCase } from "../type-text.js";
import { comment, functionName, moduleName, oneLine, text } from "./syntax.js";
import { anyObject, PythonTypes } from "./types.js";

/**
 * Generates Python from a flow, for the SDK `flowdsl`: a module with the types of packets and nodes, and a module with a stub for each
 * node to edit, which serves the nodes when it is run.
 */
export function generatePython(plan: FlowPlan): readonly GeneratedFile[] {
  const name = moduleName(plan.id);
  return [
    { name: `${name}_types.py`, text: typesFile(plan), yours: false },
    { name: `${name}_nodes.py`, text: nodesFile(plan), yours: true },
  ];
}

/** One node for each operationId: a server has one. */
function operationsOf({ nodes }: FlowPlan): readonly PlannedNode[] {
  return [...new Map([...nodes.values()].reverse().map((node) => [node.operationId, node])).values()].reverse();
}

/** The first part of the names of a node's types, by operationId. */
function typeNames(plan: FlowPlan, names: Names): ReadonlyMap<string, string> {
  const ends = ["Input", "Output"];
  return new Map(operationsOf(plan).map(({ operationId }) => [operationId, names.take(pascalCase(operationId), ends)]));
}

function typesFile(plan: FlowPlan): string {
  const names = new Names(["None", "True", "False"]);
  const ofNode = typeNames(plan, names);
  const ports = [...plan.nodes.values()].flatMap(({ inputs, outputs }) => [...inputs, ...outputs]);
  const types = new PythonTypes(ports.find(({ packet }) => packet !== undefined)?.packet?.definitions ?? {}, names);
  const nodes = operationsOf(plan).map((node) => nodeTypes(node, ofNode.get(node.operationId) ?? "", types));
  const packets = types.definitions();
  return `# Generated from ${oneLine(plan.document.title)} ${oneLine(plan.document.version)} by \`onceflow generate python\`. Do not edit.
import typing

import flowdsl

${packets === "" ? "" : `\n${packets}`}
${nodes.map((node) => `\n${node}`).join("\n")}`;
}

function nodeTypes(node: PlannedNode, name: string, types: PythonTypes): string {
  const { id, kind, summary, description, inputs, outputs } = node;
  const about = [`${id} (${kind})${summary === undefined ? "" : `: ${summary}`}`, description].filter(Boolean).join("\n");
  const typeOf = ({ name: port, packet }: PlannedPort) =>
    packet === undefined ? anyObject : types.of(packet.schema, `${name}${pascalCase(port)}`);
  const received = (inputs.length === 0 ? [{ name: "in" }] : inputs).map(
    (port) => `    def data(self, port: typing.Literal[${text(port.name)}]) -> ${typeOf(port)}: ...\n`,
  );
  // A node without declared outputs may send to any port.
  const sent =
    outputs.length === 0
      ? [`    def send(self, port: str, data: ${anyObject}) -> ${text(`${name}Output`)}: ...\n`]
      : outputs.map(
          (port) =>
            `    def send(self, port: typing.Literal[${text(port.name)}], data: ${typeOf(port)}) -> ${text(`${name}Output`)}: ...\n`,
        );
  return `${comment(about)}class ${name}Input(typing.Protocol):
    @property
    def context(self) -> flowdsl.NodeContext: ...
    @property
    def ports(self) -> typing.Tuple[str, ...]: ...
${overloads(received)}

class ${name}Output(typing.Protocol):
${overloads(sent)}`;
}

/** A single overload is an error for type checkers. */
function overloads(signatures: readonly string[]): string {
  return signatures.length === 1 ? signatures.join("") : signatures.map((one) => `    @typing.overload\n${one}`).join("");
}

function nodesFile(plan: FlowPlan): string {
  const types = typeNames(plan, new Names(["None", "True", "False"]));
  const taken = new Set(["flowdsl", "types", "nodes"]);
  const nodes = operationsOf(plan).map((node) => {
    const name = functionName(node.operationId, taken);
    taken.add(name);
    return { ...node, name, type: types.get(node.operationId) ?? "" };
  });
  const listed = (ports: readonly PlannedPort[]) => `[${ports.map(({ name }) => text(name)).join(", ")}]`;
  const stubs = nodes.map(({ operationId, summary, inputs, outputs, name, type }) => {
    const facts = [
      text(operationId),
      ...(summary === undefined ? [] : [`summary=${text(summary)}`]),
      ...(inputs.length === 0 ? [] : [`inputs=${listed(inputs)}`]),
      ...(outputs.length === 0 ? [] : [`outputs=${listed(outputs)}`]),
    ];
    return `@flowdsl.typed_node(${facts.join(", ")})
async def ${name}(input: types.${type}Input, output: types.${type}Output) -> None:
    raise flowdsl.NodeError(flowdsl.PERMANENT, ${text(`${operationId} is not implemented yet`)})
`;
  });
  const module = moduleName(plan.id);
  return `import flowdsl

import ${module}_types as types


${stubs.join("\n\n")}

nodes = [${nodes.map(({ name }) => name).join(", ")}]

if __name__ == "__main__":
    flowdsl.serve(nodes, port=7001, dedupe=${text(`sqlite:${module}.answers.db`)})
`;
}
