import type { FlowPlan, PlannedNode, PlannedPort } from "../plan.js";
import { camelCase, commentText, pascalCase, propertyName, typeText } from "./type-text.js";

export interface GeneratedFile {
  readonly name: string;
  readonly text: string;
  /** It is yours once it is there: generating again leaves it alone. */
  readonly yours: boolean;
}

/** Types of packets and nodes, made anew each time; and a stub for every node, to be written on. */
export function generateTypeScript(plan: FlowPlan): readonly GeneratedFile[] {
  return [
    { name: `${plan.id}.types.ts`, text: typesFile(plan), yours: false },
    { name: `${plan.id}.nodes.ts`, text: nodesFile(plan), yours: true },
  ];
}

/** What the generated files import. */
const ours = ["NodeError", "TypedNode"];

/** A name for every node, by its operationId; each, and what is made of it, is nobody else's. */
function namesOf(plan: FlowPlan): ReadonlyMap<string, string> {
  const taken = new Set(ours);
  const names = new Map<string, string>();
  for (const { id, operationId } of plan.nodes.values()) {
    const wanted = pascalCase(operationId);
    let name = wanted;
    for (let number = 2; ["", "Inputs", "Outputs"].some((end) => taken.has(name + end)); number += 1) name = `${wanted}${number}`;
    for (const end of ["", "Inputs", "Outputs"]) taken.add(name + end);
    names.set(id, name);
  }
  return names;
}

function typesFile(plan: FlowPlan): string {
  const nodeNames = namesOf(plan);
  const names = new Map<string, string>();
  const nameOf = (definition: string): string => {
    const known = names.get(definition);
    if (known !== undefined) return known;
    const wanted = pascalCase(definition);
    const taken = new Set([
      ...ours,
      ...names.values(),
      ...[...nodeNames.values()].flatMap((one) => [one, `${one}Inputs`, `${one}Outputs`]),
    ]);
    const name = taken.has(wanted) ? `${wanted}Packet${taken.size}` : wanted;
    names.set(definition, name);
    return name;
  };
  const nodes = [...plan.nodes.values()].map((node) => nodeTypes(node, nodeNames.get(node.id) ?? "", nameOf)).join("\n");
  const packets: string[] = [];
  const definitions = [...plan.nodes.values()].flatMap(portsOf).find(({ packet }) => packet !== undefined)?.packet?.definitions ?? {};
  // Naming one can name another: the map grows while it is gone through.
  for (const [definition, name] of names) {
    const schema = definitions[definition];
    const description = typeof schema === "object" ? schema["description"] : undefined;
    packets.push(
      `${commentText(typeof description === "string" ? description : undefined)}export type ${name} = ${typeText(schema, nameOf)};\n`,
    );
  }
  return `// Made from ${oneLine(plan.document.title)} ${oneLine(plan.document.version)} by \`onceflow generate typescript\`. Do not write here.\nimport type { TypedNode } from "onceflow/graph";\n\n${packets.join("\n")}\n${nodes}`;
}

const portsOf = ({ inputs, outputs }: PlannedNode): readonly PlannedPort[] => [...inputs, ...outputs];
const oneLine = (text: string) => text.replace(/\s+/g, " ");

const anyData = "Readonly<Record<string, unknown>>";

function nodeTypes(node: PlannedNode, name: string, nameOf: (definition: string) => string): string {
  const fieldOf = ({ name: port, packet }: PlannedPort) =>
    `readonly ${propertyName(port)}: ${packet === undefined ? anyData : typeText(packet.schema, nameOf)}`;
  const fields = (ports: readonly PlannedPort[]) => `{ ${ports.map(fieldOf).join("; ")} }`;
  const inputs = fields(node.inputs.length === 0 ? [{ name: "in" }] : node.inputs);
  // Where the document does not say, every port is followed by every edge; what none takes is an output of the execution.
  const outputs = node.outputs.length === 0 ? `{ readonly [port: string]: ${anyData} }` : fields(node.outputs);
  const about = [`${node.id} (${node.kind})${node.summary === undefined ? "" : `: ${node.summary}`}`, node.description]
    .filter(Boolean)
    .join("\n\n");
  return `export type ${name}Inputs = ${inputs};
export type ${name}Outputs = ${outputs};
${commentText(about)}export type ${name} = TypedNode<${name}Inputs, ${name}Outputs>;
`;
}

function nodesFile(plan: FlowPlan): string {
  const names = namesOf(plan);
  const stubs = [...plan.nodes.values()].map(
    ({ id, operationId }) => `export const ${stubName(names.get(id) ?? "")}: ${names.get(id)} = async (_input, _output) => {
  throw new NodeError("PERMANENT", ${JSON.stringify(`${operationId} is not written yet`)});
};
`,
  );
  const handlers = [...plan.nodes.values()].map(
    ({ id, operationId }) => `  ${propertyName(operationId)}: typedNode(${stubName(names.get(id) ?? "")}),`,
  );
  return `import { NodeError, typedNode } from "onceflow/graph";\nimport type { ${[...names.values()].sort().join(", ")} } from "./${plan.id}.types.js";\n\n${stubs.join("\n")}\nexport const nodes = {\n${handlers.join("\n")}\n};\n`;
}

/** A word of the language gets an underscore. */
const stubName = (typeName: string): string => {
  const name = camelCase(typeName);
  return /^(nodes|typedNode|delete|return|switch|import|export|default|new|function|class|const|let|var|if|else|for|while|do|try|catch|finally|throw|void|with|yield|await|async|case|break|continue|in|of|typeof|instanceof|this|super|null|true|false|enum|static|package|private|protected|public|interface|implements|debugger|extends)$/.test(
    name,
  )
    ? `${name}_`
    : name;
};
