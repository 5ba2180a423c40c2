/** Files of about 10 KB each, so that they are one MB together. */
export const filesPerMb = 100;

/** A typical module: types, classes, helper functions, and a few functions with directives and clocks. */
export function withDirectives(n: number): string {
  const steps = Array.from({ length: 6 }, (_, i) => step(n, i)).join("\n");
  return `${head}${steps}
export async function workflow${n}(order: Order): Promise<string[]> {
  "use workflow";
  const startedAt = new Date();
  const results: string[] = [];
  for (const id of [1, 2, 3]) results.push(await step${n}_0(order, id), String(Date.now() - startedAt.getTime()));
  return results;
}
${padding(n)}`;
}

export function untouched(n: number): string {
  return `${head}${padding(n)}${padding(n + 1)}`;
}

/** A file that mentions a clock in a comment only, so that it is parsed but needs no change. */
export function inVain(n: number): string {
  return `// Date.now() is not used here.\n${untouched(n)}`;
}

const head = `import { getStepMetadata } from "onceflow/workflow";

interface Order {
  readonly id: string;
  readonly lines: readonly { readonly item: string; readonly count: number }[];
}

`;

function step(n: number, i: number): string {
  return `export async function step${n}_${i}(order: Order, id: number): Promise<string> {
  "use step";
  const { stepId } = getStepMetadata();
  const response = await fetch(\`https://example.org/\${order.id}/\${id}\`, { method: "POST", headers: { "Idempotency-Key": stepId } });
  if (!response.ok) throw new Error(\`refused: \${response.status}\`);
  return ((await response.json()) as { id: string }).id;
}`;
}

function padding(n: number): string {
  return Array.from(
    { length: 16 },
    (_, i) => `
export class Model${n}_${i}<T extends Order> {
  readonly #items = new Map<string, T>();
  constructor(private readonly name: string) {}
  add(item: T): this {
    for (const { count } of item.lines) if (count <= 0) throw new RangeError(\`\${this.name}: \${item.id} has a line with \${count}\`);
    this.#items.set(item.id, item);
    return this;
  }
  total(): number {
    return [...this.#items.values()].flatMap(({ lines }) => lines).reduce((sum, { count }) => sum + count, ${i});
  }
}
`,
  ).join("");
}
