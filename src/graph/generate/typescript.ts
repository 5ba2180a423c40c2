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

/** A name for every node, by its operationId; each, and what is made of it, is nobody else's. */
function namesOf(plan: FlowPlan): ReadonlyMap<string, string> {
  const taken = new Set(["NodeContext"]);
  const names = new Map<string, string>();
  for (const { id, operationId } of plan.nodes.values()) {
    const wanted = pascalCase(operationId);
    let name = wanted;
    for (let number = 2; ["", "Input", "Output"].some((end) => taken.has(name + end)); number += 1) name = `${wanted}${number}`;
    for (const end of ["", "Input", "Output"]) taken.add(name + end);
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
      "NodeContext",
      ...names.values(),
      ...[...nodeNames.values()].flatMap((one) => [one, `${one}Input`, `${one}Output`]),
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
  return `// Made from ${oneLine(plan.document.title)} ${oneLine(plan.document.version)} by \`onceflow generate typescript\`. Do not write here.\n\n${contextText}\n${packets.join("\n")}\n${nodes}`;
}

const contextText = `export interface NodeContext {
  readonly flowId: string;
  readonly executionId: string;
  readonly nodeId: string;
  readonly idempotencyKey?: string;
  readonly attempt: number;
  readonly signal: AbortSignal;
}
`;

const portsOf = ({ inputs, outputs }: PlannedNode): readonly PlannedPort[] => [...inputs, ...outputs];
const oneLine = (text: string) => text.replace(/\s+/g, " ");

function nodeTypes(node: PlannedNode, name: string, nameOf: (definition: string) => string): string {
  const dataOf = ({ packet }: PlannedPort) => (packet === undefined ? "unknown" : typeText(packet.schema, nameOf));
  const inputs = node.inputs.length === 0 ? [{ name: "in" }] : node.inputs;
  const input = inputs.map((port) => `{ readonly port: ${JSON.stringify(port.name)}; readonly data: ${dataOf(port)} }`).join(" | ");
  const fields = node.outputs.map((port) => `readonly ${propertyName(port.name)}?: ${dataOf(port)}`).join("; ");
  const output =
    node.outputs.length > 0
      ? `{ ${fields} }`
      : node.outgoing.length > 0
        ? "{ readonly [port: string]: unknown }"
        : "{ readonly [port: string]: never }";
  const about = [`${node.id} (${node.kind})${node.summary === undefined ? "" : `: ${node.summary}`}`, node.description]
    .filter(Boolean)
    .join("\n\n");
  return `export type ${name}Input = ${input};
export type ${name}Output = ${output};
${commentText(about)}export type ${name} = (input: ${name}Input, context: NodeContext) => Promise<${name}Output>;
`;
}

function nodesFile(plan: FlowPlan): string {
  const names = namesOf(plan);
  const stubs = [...plan.nodes.values()].map(
    ({ id, operationId }) => `export const ${stubName(names.get(id) ?? "")}: ${names.get(id)} = async (_input, _context) => {
  throw new Error(${JSON.stringify(`${operationId} is not written yet`)});
};
`,
  );
  const handlers = [...plan.nodes.values()].map(
    ({ id, operationId }) => `  ${propertyName(operationId)}: ${stubName(names.get(id) ?? "")},`,
  );
  return `import type { ${[...names.values()].sort().join(", ")} } from "./${plan.id}.types.js";\n\n${stubs.join("\n")}\nexport const nodes = {\n${handlers.join("\n")}\n};\n`;
}

/** A word of the language gets an underscore. */
const stubName = (typeName: string): string => {
  const name = camelCase(typeName);
  return /^(nodes|delete|return|switch|import|export|default|new|function|class|const|let|var|if|else|for|while|do|try|catch|finally|throw|void|with|yield|await|async|case|break|continue|in|of|typeof|instanceof|this|super|null|true|false|enum|static|package|private|protected|public|interface|implements|debugger|extends)$/.test(
    name,
  )
    ? `${name}_`
    : name;
};
