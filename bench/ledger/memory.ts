import { open } from "onceflow";
import { ours } from "./ours.js";
import type { Subject } from "./subject.js";

/** No driver, so no floor: what the library itself costs, without any input or output. */
export function memorySubject(): Subject {
  return {
    name: "memory",
    conditions: {},
    emptyUrl: async () => "memory:",
    async prepare({ kind }) {
      const store = await open("memory:");
      return { contenders: [await ours(store, kind)], close: () => store.close() };
    },
    close: async () => {},
  };
}
