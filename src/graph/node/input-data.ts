import type { NodeInput } from "./node.js";

/** The packet of a node with one filled port; with several, an object that has the packet of each port. */
export function dataOf(input: NodeInput): Readonly<Record<string, unknown>> {
  const [only, second] = input.ports;
  if (only !== undefined && second === undefined) return input.packet(only).data;
  return Object.fromEntries(input.ports.map((port) => [port, input.packet(port).data]));
}
