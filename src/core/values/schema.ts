/** The part of Standard Schema v1 that is needed to validate a value: zod, valibot, arktype and others implement it. */
export interface StandardSchema<Output = unknown, Input = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    /** For type inference only. */
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    readonly validate: (value: unknown) => Checked<Output> | Promise<Checked<Output>>;
  };
}

interface Checked<Output> {
  readonly value?: Output;
  readonly issues?: readonly SchemaIssue[] | undefined;
}

/** One issue, as Standard Schema v1 defines it. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
}

/** A message for the first issue with its path, and the number of further issues. */
export function inWords(what: string, issues: readonly SchemaIssue[]): string {
  const [first] = issues;
  if (first === undefined) return "";
  const parts = (first.path ?? []).map((part) => String(typeof part === "object" ? part.key : part));
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : "";
  return `${[what, ...parts].join(".")}: ${first.message}${more}`;
}

/** Validates `input`. An error thrown by the validator itself is not about the input, and is passed on. */
export async function validate<Output>(schema: StandardSchema<Output>, input: unknown): Promise<Checked<Output>> {
  return await schema["~standard"].validate(input);
}
