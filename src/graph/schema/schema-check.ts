import { choiceChecks } from "./choices.js";
import type { JsonSchema } from "./compiler.js";
import { type Keywords, known } from "./keywords.js";
import { listChecks } from "./lists.js";
import { objectChecks } from "./objects.js";
import { numberChecks, oneOfValues, textChecks } from "./scalars.js";
import { all, alwaysInvalid, alwaysValid, type Check, cannotCheck, mustBeJson, mustBeShallow } from "./verdict.js";

const prefix = "#/definitions/";

/** Compiles a table of schemas that refer to each other to checks. Each schema is compiled once, when it is first applied. */
export class SchemaChecks {
  readonly #definitions: Readonly<Record<string, JsonSchema>>;
  readonly #compiled = new Map<string, Check>();

  constructor(definitions: Readonly<Record<string, JsonSchema>>) {
    this.#definitions = definitions;
  }

  /** The check of the schema with this name. */
  of(name: string): Check {
    let check: Check | undefined;
    return (value, depth) => {
      check ??= this.#definition(name);
      return check(value, depth);
    };
  }

  #definition(name: string): Check {
    const compiled = this.#compiled.get(name) ?? this.compile(this.#definitions[name] ?? cannotCheck(`schema "${name}" not found`));
    this.#compiled.set(name, compiled);
    return compiled;
  }

  readonly compile = (schema: JsonSchema): Check => {
    if (typeof schema === "boolean") return schema ? alwaysValid : alwaysInvalid;
    const { $ref } = schema as Keywords;
    if ($ref !== undefined)
      return $ref.startsWith(prefix)
        ? this.#reference($ref.slice(prefix.length))
        : () => cannotCheck(`"${$ref}" is not a reference into the table`);
    const unknown = Object.keys(schema).find((name) => !Object.hasOwn(known, name));
    if (unknown !== undefined) return () => cannotCheck(`unknown keyword "${unknown}"`);
    return this.#byType(schema);
  };

  /** Counts depth also for a reference to `true`: the reference itself is a schema that is applied. */
  #reference(name: string): Check {
    const check = this.of(name);
    return (value, depth) => {
      mustBeShallow(depth);
      mustBeJson(value);
      return check(value, depth + 1);
    };
  }

  /** Groups checks by type of value, so that a value runs only the checks for its type. */
  #byType(schema: Keywords): Check {
    const general = choiceChecks(schema, this.compile);
    if (schema.const !== undefined) general.push(oneOfValues([schema.const]));
    if (schema.enum !== undefined) general.push(oneOfValues(schema.enum));
    const ofType = (type: string, checks: readonly Check[] = []) => all([...typeChecks(schema, type), ...general, ...checks]);
    const text = ofType("string", textChecks(schema));
    const number = ofType("number", numberChecks(schema));
    const flag = ofType("boolean");
    const nothing = ofType("null");
    const list = ofType("array", listChecks(schema, this.compile));
    const object = ofType("object", objectChecks(schema, this.compile));
    return (value, depth) => {
      mustBeShallow(depth);
      switch (typeof value) {
        case "string":
          return text(value, depth);
        case "number":
          return number(value, depth);
        case "boolean":
          return flag(value, depth);
        case "object":
          if (value === null) return nothing(value, depth);
          return Array.isArray(value) ? list(value, depth) : object(value, depth);
        default:
          return cannotCheck(`a value of type ${typeof value} is not JSON`);
      }
    };
  }
}

function typeChecks({ type }: Keywords, of: string): Check[] {
  const types = typeof type === "string" ? [type] : type;
  if (types === undefined || types.includes(of)) return [];
  return of === "number" && types.includes("integer") ? [Number.isInteger] : [alwaysInvalid];
}
