import * as devalue from "devalue";
import { ConfigurationError } from "../errors/errors.js";
import { allKinds, type ValueKind } from "./kinds.js";

/** A value of devalue's text. */
export function readValue(text: string): unknown {
  try {
    return devalue.parse(text, revivers());
  } catch (error) {
    const [, kind] = (error instanceof Error && /^Unknown type (.*)$/s.exec(error.message)) || [];
    if (kind === undefined) throw error;
    throw new ConfigurationError(
      `[onceflow] a stored value is of the kind "${kind}", which is not known here; import what it was made with (onceflow/workflow, say) before it is read`,
      { code: "UNKNOWN_KIND" },
    );
  }
}

function revivers(): Record<string, (wrapped: unknown) => unknown> {
  return byKind(
    ({ make }) =>
      (wrapped) =>
        make((wrapped as { readonly kept: unknown }).kept),
  );
}

export function byKind<T>(part: (kind: ValueKind) => T): Record<string, T> {
  return Object.fromEntries([...allKinds()].map(([name, kind]) => [name, part(kind)]));
}
