import { Gate } from "../../../core/work/gate.js";

/** How many packets of one edge, or one node, this process has, and its limit. */
export interface Load {
  taken: number;
  readonly max: number;
  /** Undefined: there is no limit, so no call has to wait. */
  readonly gate: Gate | undefined;
}

export function noLoad(max: number | undefined): Load {
  return { taken: 0, max: max ?? Number.POSITIVE_INFINITY, gate: max === undefined ? undefined : new Gate(max) };
}
