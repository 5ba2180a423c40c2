import type { Census, PacketRow } from "../../core/packets/rules/table.js";

type Counted = Pick<PacketRow, "execution" | "state" | "reach">;

interface Sums {
  open: number;
  dead: number;
  /** By port: how many packets may still fill it. */
  readonly ports: Map<string, number>;
}

/** Counts, by execution, the packets that may still fill ports of joins, so that a census reads no packets. */
export class CensusBook {
  readonly #executions = new Map<number, Sums>();

  /** Adds `count` packets like this one; a negative count removes them. */
  add({ execution, state, reach }: Counted, count: number): void {
    if (execution === null || reach === null || state === "kept") return;
    const sums = this.#executions.get(execution) ?? { open: 0, dead: 0, ports: new Map<string, number>() };
    this.#executions.set(execution, sums);
    if (state === "due" || state === "held") sums.open += count;
    if (state === "dead") sums.dead += count;
    for (const port of reach) {
      const left = (sums.ports.get(port) ?? 0) + count;
      if (left === 0) sums.ports.delete(port);
      else sums.ports.set(port, left);
    }
    if (sums.open === 0 && sums.dead === 0 && sums.ports.size === 0) this.#executions.delete(execution);
  }

  forget(execution: number): void {
    this.#executions.delete(execution);
  }

  of(execution: number): Census {
    const { open, dead, ports } = this.#executions.get(execution) ?? none;
    return { open, dead, ports: new Set(ports.keys()) };
  }
}

const none: Sums = { open: 0, dead: 0, ports: new Map() };

/** The stored form of `reach`. Encoded once for each array: all packets of an edge share one. */
export function reachText(reach: readonly string[] | null): string | null {
  if (reach === null) return null;
  const known = texts.get(reach) ?? JSON.stringify(reach);
  texts.set(reach, known);
  return known;
}

const texts = new WeakMap<readonly string[], string>();

export function reachIn(text: string | null | undefined): readonly string[] | null {
  return text === null || text === undefined ? null : (JSON.parse(text) as string[]);
}
