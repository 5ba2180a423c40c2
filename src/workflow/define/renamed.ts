import { presentName } from "./registry.js";

/** A function with the names that earlier versions of this package gave it. */
export interface Renamed {
  readonly name: string;
  readonly former?: readonly string[];
}

/** Whether `stored` is the name of this workflow, or a former name of it. */
export function isStoredAs({ name, former = [] }: Renamed, stored: string): boolean {
  return stored === name || (former.includes(stored) && presentName("workflow", stored) === name);
}
