import { BaseNode, type NodeInput, NodeOutput } from "./node.js";

/** One packet of a group, as it waits in the store for the others. */
export interface GroupPart {
  readonly group: string;
  /** From 0 to `count` - 1. */
  readonly index: number;
  readonly count: number;
  readonly data: Readonly<Record<string, unknown>>;
}

/**
 * A node whose packets wait for each other in the store. The runtime calls `partOf` for each packet, stores the part, and calls
 * `gather` with all parts of a group when the last one has arrived.
 */
export abstract class GatheringNode extends BaseNode {
  /** How long a part waits for the others. Undefined: as long as at a join. */
  abstract readonly waitMs: number | undefined;

  abstract partOf(input: NodeInput): GroupPart;

  /** The output for a group. The parts are in the order of their indexes. */
  abstract gather(parts: readonly GroupPart[]): NodeOutput;

  /** Without a runtime: a group of one packet is complete. */
  handle(input: NodeInput): NodeOutput {
    const part = this.partOf(input);
    return part.count === 1 ? this.gather([part]) : new NodeOutput();
  }
}
