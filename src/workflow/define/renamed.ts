import { presentName } from "./registry.js";

/** A function with the names that earlier versions of this package gave it. */
export interface Renamed {
  readonly name: string;
  readonly former?: readonly string[];
}

/** Whether a run is stored as one of this workflow, under its name or a former one. */
export function isStoredAs({ name, former = [] }: Renamed, stored: string): boolean {
  return stored === name || (former.includes(stored) && presentName("workflow", stored) === name);
}
