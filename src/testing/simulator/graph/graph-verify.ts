import { PromiseBroken } from "../observer.js";
import type { GraphSimulation } from "./graph-simulation.js";

/** Checks after everything has ended: no packet is lost, the history is that of the commits, each effect was applied once, and senders got the executions that exist. */
export function verifyGraph({ observer, table, effects, reportedExecutions }: GraphSimulation): void {
  const { book } = observer;
  // A part that an operator retried at the very end waits for the other parts until its join timeout: this is not a loss.
  for (const { name, fate, part, reinjected } of book.packets.values())
    if (fate === undefined && !(part && reinjected))
      throw new PromiseBroken(`${name}: ${part ? "a part that was neither joined nor closed" : "lost"}`);
  for (const [key, number] of reportedExecutions)
    if (observer.triggers.get(key) !== number)
      throw new PromiseBroken(`${key}: the sender got execution ${number}, but the store started execution ${observer.triggers.get(key)}`);
  for (const row of table.packets.values())
    if (row.state !== "dead" && row.state !== "part")
      throw new PromiseBroken(`packet ${row.no} is still ${row.state} in the store after everything has ended`);
  observer.history.verify(table);
  for (const [number] of table.executions)
    if (!observer.executions.has(number)) throw new PromiseBroken(`execution ${number}: it was never triggered`);
  for (const key of effects.keys()) {
    const attempts = effects.calls(key).map(({ attempt }) => attempt);
    if (effects.applied(key) !== 1) throw new PromiseBroken(`${key}: the effect was applied ${effects.applied(key)} times`);
    if (attempts.includes(undefined)) throw new PromiseBroken(`${key}: a call has no attempt number`);
  }
}
