import type { FlowPlan, PlannedNode, PlannedPort } from "../plan/plan.js";
import type { GeneratedFile } from "./generated-file.js";
import { fileName, Names, nodeNames } from "./names.js";
import { anyObject, camelCase, commentText, pascalCase, propertyName, typeText } from "./type-text.js";

/** Generates TypeScript from a flow: a file with the types of packets and nodes, and a file with a stub for each node to edit. */
export function generateTypeScript(plan: FlowPlan): readonly GeneratedFile[] {
  const name = fileName(plan.id);
  return [
    { name: `${name}.types.ts`, text: typesFile(plan), yours: false },
    { name: `${name}.nodes.ts`, text: nodesFile(plan), yours: true },
  ];
}

/** Names that the generated files import. */
const imported = ["NodeError", "TypedNode"];

function typesFile(plan: FlowPlan): string {
  const names = new Names(imported);
  const nodeTypeNames = nodeNames(plan, names);
  const packetNames = new Map<string, string>();
  const nameOf = (definition: string): string => {
    const wanted = pascalCase(definition);
    const name = packetNames.get(definition) ?? names.take(names.has(wanted) ? `${wanted}Packet` : wanted);
    packetNames.set(definition, name);
    return name;
  };
  const nodes = [...plan.nodes.values()].map((node) => nodeTypes(node, nodeTypeNames.get(node.id) ?? "", nameOf)).join("\n");
  const packets: string[] = [];
  const definitions = [...plan.nodes.values()].flatMap(portsOf).find(({ packet }) => packet !== undefined)?.packet?.definitions ?? {};
  // The map grows during this loop: the type of one packet may refer to other packets.
  for (const [definition, name] of packetNames) {
    const schema = definitions[definition];
    const description = typeof schema === "object" ? schema["description"] : undefined;
    packets.push(
      `${commentText(typeof description === "string" ? description : undefined)}export type ${name} = ${typeText(schema, nameOf)};\n`,
    );
  }
  return `// Generated from ${oneLine(plan.document.title)} ${oneLine(plan.document.version)} by \`onceflow generate typescript\`. Do not edit.\nimport type { TypedNode } from "onceflow/graph";\n\n${packets.join("\n")}\n${nodes}`;
}

const portsOf = ({ inputs, outputs }: PlannedNode): readonly PlannedPort[] => [...inputs, ...outputs];
const oneLine = (text: string) => text.replace(/\s+/g, " ");

function nodeTypes(node: PlannedNode, name: string, nameOf: (definition: string) => string): string {
  const fieldOf = ({ name: port, packet }: PlannedPort) =>
    `readonly ${propertyName(port)}: ${packet === undefined ? anyObject : typeText(packet.schema, nameOf)}`;
  const fields = (ports: readonly PlannedPort[]) => `{ ${ports.map(fieldOf).join("; ")} }`;
  const inputs = fields(node.inputs.length === 0 ? [{ name: "in" }] : node.inputs);
  // A node without declared outputs may send to any port: every edge follows every port, and other packets are outputs of the execution.
  const outputs = node.outputs.length === 0 ? `{ readonly [port: string]: ${anyObject} }` : fields(node.outputs);
  const about = [`${node.id} (${node.kind})${node.summary === undefined ? "" : `: ${node.summary}`}`, node.description]
    .filter(Boolean)
    .join("\n\n");
  return `export type ${name}Inputs = ${inputs};
export type ${name}Outputs = ${outputs};
${commentText(about)}export type ${name} = TypedNode<${name}Inputs, ${name}Outputs>;
`;
}

function nodesFile(plan: FlowPlan): string {
  const types = nodeNames(plan, new Names(imported));
  const nodes = [...plan.nodes.values()].map(({ id, operationId }) => ({ operationId, type: types.get(id) ?? "" }));
  const stubs = nodes.map(
    ({ operationId, type }) => `export const ${stubName(type)}: ${type} = async (_input, _output) => {
  throw new NodeError("PERMANENT", ${JSON.stringify(`${operationId} is not implemented yet`)});
};
`,
  );
  const handlers = nodes.map(({ operationId, type }) => `  ${propertyName(operationId)}: typedNode(${stubName(type)}),`);
  return `import { NodeError, typedNode } from "onceflow/graph";\nimport type { ${[...types.values()].sort().join(", ")} } from "./${fileName(plan.id)}.types.js";\n\n${stubs.join("\n")}\nexport const nodes = {\n${handlers.join("\n")}\n};\n`;
}

/** Names that a constant in the stub file cannot have: reserved words, and names that the file already uses. */
const reserved = new Set(
  `arguments async await break case catch class const continue debugger default delete do else enum eval export exports extends
  false finally for function globalThis if implements import in instanceof interface let module new nodes null of package private
  protected public require return static super switch this throw true try typedNode typeof undefined var void while with yield`.split(
    /\s+/,
  ),
);

const stubName = (typeName: string): string => {
  const name = camelCase(typeName);
  return reserved.has(name) ? `${name}_` : name;
};
