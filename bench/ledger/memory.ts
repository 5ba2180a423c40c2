import { open } from "onceflow";
import { ours } from "./ours.js";
import type { Subject } from "./subject.js";

/** There is no driver, so there is no floor: this is the cost of the library itself, without any I/O. */
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
