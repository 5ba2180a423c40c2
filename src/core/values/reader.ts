import * as devalue from "devalue";
import { ConfigurationError } from "../errors/errors.js";
import { allKinds, type ValueKind } from "./kinds.js";

/** Decodes devalue's text. Throws ConfigurationError if it holds a kind of value that is not registered in this process. */
export function readValue(text: string): unknown {
  try {
    return devalue.parse(text, revivers());
  } catch (error) {
    const [, kind] = (error instanceof Error && /^Unknown type (.*)$/s.exec(error.message)) || [];
    if (kind === undefined) throw error;
    throw new ConfigurationError(
      `[onceflow] a stored value is of the kind "${kind}", which is not registered in this process; import the module that defines it (for example onceflow/workflow) first`,
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
