import type { GraphSimulation } from "./simulate-graphs.js";

/** What hits processes at any time, not only when they call the store: death, a pause, a restart. */
export function startGraphBlows({ world, plan, fleet, storm, observer }: GraphSimulation): void {
  const { random } = world;
  const strike = () => {
    if (storm.over) return;
    const slot = random.between(0, plan.slots.length - 1);
    const { process } = fleet.host(slot);
    switch (random.between(0, 3)) {
      case 0:
        fleet.kill(slot, "of a blow");
        break;
      case 1: {
        const ms = random.between(1, plan.weather.pauseMsMax);
        process.pausedUntil = world.now() + ms;
        observer.note(() => `p${process.id} pauses for ${ms} ms`);
        break;
      }
      case 2:
        void fleet.replace(slot, random.pick([0, plan.leaseMs, 10_000]));
        break;
      case 3:
        fleet.boot(slot);
    }
    world.after(random.between(0, plan.blowMs * 2), strike);
  };
  world.after(random.between(0, plan.blowMs * 2), strike);
}
