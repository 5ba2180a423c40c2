import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions } from "../../core/errors/known-options.js";
import { inWords, type StandardSchema, validate } from "../../core/values/schema.js";
import type { Hook, HookOptions } from "../define/hook.js";
import { createHook } from "../define/primitives.js";
import { type ResumedHook, type ResumeOptions, resumeHook } from "./api.js";

/**
 * A hook definition with types: callers send `Input`, the workflow receives `Output`. If it has a schema, payloads are
 * validated before they are sent.
 */
export interface TypedHook<Input, Output = Input> {
  /** Creates the hook in a workflow, as `createHook` does. */
  create(options?: HookOptions): Hook<Output>;
  /** Sends a payload, as `resumeHook` does. Throws InvalidInputError, without sending, if the payload does not match the schema. */
  resume(hook: string | { readonly token: string }, payload: Input, options?: ResumeOptions): Promise<ResumedHook>;
}

export declare namespace TypedHook {
  /** The type of the payloads that callers send to a hook. */
  type Input<Of> = Of extends { resume(token: string, payload: infer Sent, ...more: never[]): unknown } ? Sent : never;
}

/** A typed hook whose payload the schema does not change. */
export type DefinedHook<Payload> = TypedHook<Payload>;

/**
 * Defines a typed hook. With a schema (Standard Schema: zod, valibot, arktype …) payloads are validated, and the schema's
 * output is sent. Throws InvalidInputError if `schema` is not a Standard Schema.
 *
 * @example
 * const approval = defineHook({ schema: z.object({ approved: z.boolean() }) });
 * const { approved } = await approval.create({ token: `approve:${orderId}` });
 */
export function defineHook<Input = unknown, Output = Input>(
  options: { readonly schema?: StandardSchema<Output, Input> } = {},
): TypedHook<Input, Output> {
  knownOptions("defineHook", options, { schema: true });
  const { schema } = options;
  if (schema !== undefined && typeof schema?.["~standard"]?.validate !== "function")
    throw new InvalidInputError("schema", "must be a Standard Schema, such as a schema of zod, valibot or arktype");
  return {
    create: (given) => createHook<Output>(given),
    async resume(hook, payload, given) {
      if (schema === undefined) return await resumeHook(hook, payload, given);
      const { issues, value } = await validate(schema, payload);
      if (issues !== undefined) throw new InvalidInputError("payload", `does not match the hook's schema: ${inWords("payload", issues)}`);
      return await resumeHook(hook, value, given);
    },
  };
}
