/** The part of Standard Schema v1 that is needed to check a value: zod, valibot, arktype and others have it. */
export interface StandardSchema<Output = unknown, Input = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    /** Only for the compiler. */
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    readonly validate: (value: unknown) => Checked<Output> | Promise<Checked<Output>>;
  };
}

interface Checked<Output> {
  readonly value?: Output;
  readonly issues?: readonly SchemaIssue[] | undefined;
}

/** As the Standard Schema v1 has it. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
}

/** The first issue, with the path of what it is about, and how many there are besides. */
export function inWords(what: string, issues: readonly SchemaIssue[]): string {
  const [first] = issues;
  if (first === undefined) return "";
  const parts = (first.path ?? []).map((part) => String(typeof part === "object" ? part.key : part));
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : "";
  return `${[what, ...parts].join(".")}: ${first.message}${more}`;
}

/** What a validator itself throws is not about the input, and is thrown. */
export async function validate<Output>(schema: StandardSchema<Output>, input: unknown): Promise<Checked<Output>> {
  return await schema["~standard"].validate(input);
}
