import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions } from "../../core/errors/known-options.js";
import { inWords, type StandardSchema, validate } from "../../core/values/schema.js";
import type { Hook, HookOptions } from "../define/hook.js";
import { createHook } from "../define/primitives.js";
import { type ResumedHook, type ResumeOptions, resumeHook } from "./api.js";

/**
 * A hook with types of its own: `Input` is what is sent, `Output` what the workflow receives. With a schema, a payload is
 * checked before it is sent.
 */
export interface TypedHook<Input, Output = Input> {
  /** In a workflow. */
  create(options?: HookOptions): Hook<Output>;
  /** Anywhere else. InvalidInputError when the schema refuses the payload: nothing was sent. */
  resume(hook: string | { readonly token: string }, payload: Input, options?: ResumeOptions): Promise<ResumedHook>;
}

export declare namespace TypedHook {
  /** What is sent to a hook of this type. */
  type Input<Of> = Of extends { resume(token: string, payload: infer Sent, ...more: never[]): unknown } ? Sent : never;
}

/** A typed hook whose payload arrives as it was sent. */
export type DefinedHook<Payload> = TypedHook<Payload>;

/**
 * A typed hook. With a schema (Standard Schema: zod, valibot, arktype …) payloads are checked, and what the schema makes
 * of them is sent.
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
    throw new InvalidInputError("schema", "must be a Standard Schema: an object of zod, valibot, arktype or the like");
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
