import type { SchemaIssue } from "./errors.js";

/** The part of Standard Schema v1 that is needed to check a value: zod, valibot, arktype and others have it. */
export interface StandardSchema<Output = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Checked<Output> | Promise<Checked<Output>>;
  };
}

interface Checked<Output> {
  readonly value?: Output;
  readonly issues?: readonly SchemaIssue[] | undefined;
}

/** What a validator itself throws is not about the input, and is thrown. */
export async function validate<Output>(schema: StandardSchema<Output>, input: unknown): Promise<Checked<Output>> {
  return await schema["~standard"].validate(input);
}
