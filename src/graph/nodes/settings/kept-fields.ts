import { NodeError } from "../../node/node-error.js";

/** The fields of the packet that `keep` names. Throws NodeError VALIDATION if one is missing. */
export function keptFields(data: Readonly<Record<string, unknown>>, keep: readonly string[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    keep.map((name) => {
      if (Object.hasOwn(data, name)) return [name, data[name]];
      throw new NodeError("VALIDATION", `settings.keep: the packet has no "${name}"`);
    }),
  );
}
