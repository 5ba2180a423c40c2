import { PromiseBroken } from "../observer.js";
import type { GraphSimulation } from "./graph-simulation.js";

/** The storm is over: nothing is lost, every effect is explained, and what was told to senders is what happened. */
export function verifyGraph({ observer, table, effects, told }: GraphSimulation): void {
  const { book } = observer;
  // A part that was re-injected when everything was over waits for others that are, until its time is over.
  for (const { name, fate, part, reinjected } of book.packets.values())
    if (fate === undefined && !(part && reinjected))
      throw new PromiseBroken(`${name}: ${part ? "a part that nobody joined or closed" : "lost"}`);
  for (const [key, no] of told)
    if (observer.triggers.get(key) !== no) throw new PromiseBroken(`${key}: told of ${no}, and it is another one`);
  for (const row of table.packets.values())
    if (row.state !== "dead" && row.state !== "part")
      throw new PromiseBroken(`packet ${row.no} is ${row.state} in the store, and everything has ended`);
  for (const [no] of table.executions) if (!observer.executions.has(no)) throw new PromiseBroken(`execution ${no}: nobody began it`);
  for (const key of effects.keys()) {
    const attempts = effects.calls(key).map(({ attempt }) => attempt);
    if (effects.applied(key) !== 1) throw new PromiseBroken(`${key}: applied ${effects.applied(key)} times`);
    if (attempts.includes(undefined)) throw new PromiseBroken(`${key}: called without an attempt`);
  }
}
