import type { JsonSchema } from "./compiler.js";
import type { Check } from "./verdict.js";

export type Compile = (schema: JsonSchema) => Check;

/** The keywords of a schema in the table; known-keywords.ts has checked the types of their values. */
export interface Keywords {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly not?: JsonSchema;
  readonly allOf?: readonly JsonSchema[];
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly if?: JsonSchema;
  readonly then?: JsonSchema;
  readonly else?: JsonSchema;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly patternProperties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: JsonSchema;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly propertyNames?: JsonSchema;
  readonly dependencies?: Readonly<Record<string, readonly string[] | JsonSchema>>;
  readonly items?: JsonSchema | readonly JsonSchema[];
  readonly additionalItems?: JsonSchema;
  readonly contains?: JsonSchema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly format?: string;
  readonly title?: string;
  readonly description?: string;
}

/** All keywords that the checks support. A schema with another keyword cannot be checked. */
export const known: Readonly<Record<keyof Keywords, true>> = {
  $ref: true,
  type: true,
  const: true,
  enum: true,
  not: true,
  allOf: true,
  anyOf: true,
  oneOf: true,
  if: true,
  then: true,
  else: true,
  properties: true,
  required: true,
  patternProperties: true,
  additionalProperties: true,
  minProperties: true,
  maxProperties: true,
  propertyNames: true,
  dependencies: true,
  items: true,
  additionalItems: true,
  contains: true,
  minItems: true,
  maxItems: true,
  uniqueItems: true,
  minimum: true,
  maximum: true,
  exclusiveMinimum: true,
  exclusiveMaximum: true,
  multipleOf: true,
  minLength: true,
  maxLength: true,
  pattern: true,
  format: true,
  title: true,
  description: true,
};
