import type { Guard } from "../../test/servers/process/guard.js";
import { ContenderProcess, type ProcessOptions } from "./contender-process.js";
import type { Entrant } from "./entrants.js";
import type { Place, Places } from "./places.js";

/** Opens contenders and places for every part of the benchmark. */
export class Bench {
  readonly places: Places;
  readonly #guard: Guard;

  constructor(places: Places, guard: Guard) {
    this.places = places;
    this.#guard = guard;
  }

  place({ store }: Entrant): Promise<Place> {
    return store === "postgres" ? this.places.inDatabase() : this.places.inFolder();
  }

  open(
    { module, node }: Entrant,
    { url, folder }: Place,
    options: Pick<ProcessOptions, "countsRoundTrips" | "resting" | "under"> = {},
  ): Promise<ContenderProcess> {
    return ContenderProcess.open({ module, node, folder, guard: this.#guard, ...(url === undefined ? {} : { url }), ...options });
  }

  /** Opens a contender on an empty place, calls `work`, and closes both. */
  async with<T>(entrant: Entrant, work: (process: ContenderProcess) => Promise<T>): Promise<T> {
    const place = await this.place(entrant);
    try {
      const process = await this.open(entrant, place);
      try {
        return await work(process);
      } finally {
        await process.close();
      }
    } finally {
      await place.release();
    }
  }
}
