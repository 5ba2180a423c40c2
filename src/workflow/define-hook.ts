import { InvalidInputError } from "../core/errors.js";
import { inWords, type StandardSchema, validate } from "../core/schema.js";
import { type ResumeOptions, resumeHook } from "./api.js";
import type { HookOptions } from "./hooks.js";
import { createHook } from "./primitives.js";
import type { Hook } from "./run-hook.js";

/** A hook with a type of its own: what is sent is checked before it is, and what comes has been checked. */
export interface DefinedHook<Payload> {
  /** In a workflow. */
  create(options?: HookOptions): Hook<Payload>;
  /** Anywhere else. InvalidInputError when the schema refuses the payload: nothing was sent. */
  resume(token: string, payload: Payload, options?: ResumeOptions): Promise<{ readonly runId: string }>;
}

/**
 * A typed hook. With a schema (Standard Schema: zod, valibot, arktype …) payloads are checked, and what the schema makes
 * of them is sent.
 *
 * @example
 * const approval = defineHook({ schema: z.object({ approved: z.boolean() }) });
 * const { approved } = await approval.create({ token: `approve:${orderId}` });
 */
export function defineHook<Payload = unknown>({ schema }: { readonly schema?: StandardSchema<Payload> } = {}): DefinedHook<Payload> {
  if (schema !== undefined && typeof schema?.["~standard"]?.validate !== "function")
    throw new InvalidInputError("schema", "must be a Standard Schema: an object of zod, valibot, arktype or the like");
  return {
    create: (options) => createHook<Payload>(options),
    async resume(token, payload, options) {
      if (schema === undefined) return await resumeHook(token, payload, options);
      const { issues, value } = await validate(schema, payload);
      if (issues !== undefined) throw new InvalidInputError("payload", `does not match the hook's schema: ${inWords("payload", issues)}`);
      return await resumeHook(token, value, options);
    },
  };
}
