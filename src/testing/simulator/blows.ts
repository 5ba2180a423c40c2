import type { Host, HostFleet } from "./host-fleet.js";
import type { World } from "./world.js";

interface BlowTarget {
  readonly world: World;
  readonly plan: {
    readonly slots: readonly unknown[];
    readonly leaseMs: number;
    readonly blowMs: number;
    readonly weather: { readonly pauseMsMax: number };
  };
  readonly fleet: HostFleet<Host>;
  readonly storm: { readonly over: boolean };
  readonly observer: { note(line: () => string): void };
}

/**
 * Starts the faults that hit processes at any time, not only when they call the store: a crash, a pause, a graceful restart, or a second
 * process in the same slot. If `jump` is given, the store's clock also jumps forward.
 */
export function startBlows({ world, plan, fleet, storm, observer }: BlowTarget, jump?: (ms: number) => void): void {
  const { random } = world;
  const strike = () => {
    if (storm.over) return;
    const slot = random.between(0, plan.slots.length - 1);
    const { process } = fleet.host(slot);
    switch (random.between(0, jump ? 4 : 3)) {
      case 0:
        fleet.kill(slot, "of a random crash");
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
        break;
      case 4: {
        const ms = random.between(1, plan.leaseMs * 2);
        jump?.(ms);
        observer.note(() => `the store's clock jumps forward by ${ms} ms`);
      }
    }
    world.after(random.between(0, plan.blowMs * 2), strike);
  };
  world.after(random.between(0, plan.blowMs * 2), strike);
}
