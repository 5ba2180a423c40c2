import { Gate } from "../../../core/work/gate.js";

/** How many packets of an edge, or a node, are with this process, and how many may be. */
export interface Load {
  taken: number;
  readonly max: number;
  /** Where somebody may have to wait. */
  readonly gate: Gate | undefined;
}

export function noLoad(max: number | undefined): Load {
  return { taken: 0, max: max ?? Number.POSITIVE_INFINITY, gate: max === undefined ? undefined : new Gate(max) };
}
