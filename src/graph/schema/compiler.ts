import type { Findings } from "../findings/finding.js";
import { childOf, entriesOf, itemsOf, plainOf, type Spot, type Tree } from "../load/tree.js";
import { combined, inDraft07, isIgnored, type SchemaDraft } from "./drafts.js";
import { isRestricting, keywords, misspeltKeyword, wrongShape } from "./known-keywords.js";
import { wrongPattern } from "./linear-pattern.js";

/** A JSON Schema. */
export type JsonSchema = boolean | { readonly [keyword: string]: unknown };

/** Resolves a `$ref` inside these schemas (innermost first); undefined, with a finding, if the target does not exist. */
export type FollowRef = (ref: string, from: Spot, schemaRoots: readonly Spot[]) => Spot | undefined;

const prefix = "#/definitions/";
/** Maximum number of references followed for one value. */
const hopsMax = 100;

/**
 * Collects schemas from several documents into one table of draft-07 schemas that refer to each other by name. Only known keywords
 * with valid values get into the table, so that the validator never throws because of a schema.
 */
export class SchemaCompiler {
  /** Without a prototype: a packet may be named `constructor`. */
  readonly definitions: Record<string, JsonSchema> = Object.create(null) as Record<string, JsonSchema>;
  readonly #names = new Map<Tree, string>();
  readonly #taken = new Set<string>();
  #pending: { readonly name: string; readonly spot: Spot; readonly roots: readonly Spot[] }[] = [];

  constructor(
    private readonly followRef: FollowRef,
    private readonly draftOf: (spot: Spot) => SchemaDraft,
    private readonly findings: Findings,
  ) {}

  /** Adds this schema and everything that it refers to to the table, and returns its name. */
  define(spot: Spot): string {
    const name = this.#name(spot, [spot]);
    for (let next = this.#pending.pop(); next !== undefined; next = this.#pending.pop())
      this.definitions[next.name] = this.#schema(next.spot, next.roots);
    this.#refuseLoops(name, spot);
    return name;
  }

  schemaOf(name: string): JsonSchema {
    return this.definitions[name] ?? true;
  }

  /** Follows `$ref` until the schema is not a reference. Loops were rejected. */
  resolved(schema: JsonSchema): JsonSchema {
    let at = schema;
    for (let hops = 0; hops < hopsMax && typeof at === "object" && typeof at["$ref"] === "string"; hops += 1)
      at = this.schemaOf(at["$ref"].slice(prefix.length));
    return at;
  }

  #name(spot: Spot, roots: readonly Spot[]): string {
    const known = this.#names.get(spot.tree);
    if (known !== undefined) return known;
    const name = this.#freeName(spot.pointer);
    this.#names.set(spot.tree, name);
    this.#taken.add(name);
    this.#pending.push({ name, spot, roots });
    return name;
  }

  /** `/components/messages/OrderPlaced/payload` → `OrderPlaced`, or `OrderPlaced2` */
  #freeName(pointer: string): string {
    const parts = pointer.split("/").filter((part) => part !== "" && !["payload", "schema", "message"].includes(part));
    const word = (parts.at(-1) ?? "").replace(/[^A-Za-z0-9_]/g, "_");
    const name = /^[A-Za-z]/.test(word) ? word : `Schema${word}`;
    let number = 2;
    if (!this.#taken.has(name)) return name;
    while (this.#taken.has(`${name}${number}`)) number += 1;
    return `${name}${number}`;
  }

  #schema(spot: Spot, outer: readonly Spot[]): JsonSchema {
    if (spot.tree.kind === "scalar" && typeof spot.tree.value === "boolean") return spot.tree.value;
    if (spot.tree.kind !== "map") return this.#bad(spot, "a schema must be a map");
    const ref = childOf(spot, "$ref");
    const draft = this.draftOf(spot);
    // In draft-07, what stands beside a reference has no effect.
    if (ref !== undefined && (draft === "draft-07" || entriesOf(spot).length === 1)) {
      this.#checkBeside(ref, spot);
      return this.#reference(ref, outer);
    }
    const roots = isResource(spot) ? [spot, ...outer] : outer;
    const schema: Record<string, unknown> = ref === undefined ? {} : { allOf: [this.#reference(ref, outer)] };
    for (const { name: written, tree, pointer } of entriesOf(spot)) {
      const name = inDraft07(written, draft, spot);
      const shape = keywords.get(name);
      const at = { tree, pointer };
      if (isIgnored(written, draft)) this.#ignored(written, at, draft);
      if (shape === undefined) {
        const meant = isIgnored(written, draft) ? undefined : misspeltKeyword(written);
        if (meant !== undefined) this.findings.add("FLOW_UNKNOWN_FIELD", at, `unknown keyword "${written}"`, `did you mean "${meant}"?`);
        continue;
      }
      const wrong = wrongShape(shape, at);
      if (wrong !== undefined) this.#bad(at, `"${name}" ${wrong}`);
      else schema[name] = combined(schema[name], this.#value(name, at, roots));
    }
    const nullable = childOf(spot, "nullable");
    if (nullable !== undefined && isTrue(nullable)) this.#checkNullable(nullable, schema);
    return adapted(schema, nullable);
  }

  /** OpenAPI 3.0: `nullable` adds null to the `type` beside it. What other keywords refuse stays refused. */
  #checkNullable(at: Spot, schema: Readonly<Record<string, unknown>>): void {
    const { type, enum: values } = schema;
    const report = (why: string, fix: string) =>
      this.findings.add("FLOW_IGNORED_KEYWORD", at, `the keyword "nullable" has no effect here: ${why}`, fix);
    if (Array.isArray(values) && !values.includes(null)) report("the enum has no null", "add null to the enum");
    else if (type === undefined && ["allOf", "anyOf", "oneOf", "const"].some((name) => schema[name] !== undefined))
      report('it adds null only to a "type" beside it', "use anyOf: the schema, and { enum: [null] }");
  }

  /** What stands beside a reference has no effect in draft-07. Reported where it would restrict packets, or allow null. */
  #checkBeside(ref: Spot, schema: Spot): void {
    for (const { name, tree, pointer } of entriesOf(schema))
      if (pointer !== ref.pointer && (isRestricting(name) || (name === "nullable" && isTrue({ tree, pointer }))))
        this.findings.add(
          "FLOW_IGNORED_KEYWORD",
          { tree, pointer },
          `the keyword "${name}" has no effect beside $ref`,
          name === "nullable" ? "use anyOf: the reference, and { enum: [null] }" : "use allOf: the reference, and the other keywords",
        );
  }

  #ignored(name: string, at: Spot, draft: SchemaDraft): void {
    const message = `the keyword "${name}" has no effect: packets are not checked against it`;
    const fix = draft === "draft-07" ? "use keywords of JSON Schema draft-07" : "express it with keywords of JSON Schema draft-07";
    this.findings.add("FLOW_IGNORED_KEYWORD", at, message, fix);
  }

  #reference(ref: Spot, roots: readonly Spot[]): JsonSchema {
    const text = ref.tree.kind === "scalar" ? ref.tree.value : undefined;
    const target = typeof text === "string" ? this.followRef(text, ref, roots) : undefined;
    if (typeof text !== "string") this.#bad(ref, "$ref must be a string");
    if (target === undefined) return true;
    // A target inside a root keeps that root; otherwise the target is a root itself.
    const kept = roots.filter(({ tree, pointer }) => target.tree.source === tree.source && target.pointer.startsWith(`${pointer}/`));
    return { $ref: `${prefix}${this.#name(target, kept.length > 0 ? kept : [target])}` };
  }

  #value(name: string, at: Spot, roots: readonly Spot[]): unknown {
    const { tree } = at;
    switch (keywords.get(name)) {
      case "schema":
        return this.#schema(at, roots);
      case "items":
        return tree.kind === "list" ? itemsOf(at).map((item) => this.#schema(item, roots)) : this.#schema(at, roots);
      case "schemas":
        if (tree.kind !== "list" || tree.items.length === 0) return [this.#bad(at, `"${name}" must be a list of schemas`)];
        return itemsOf(at).map((item) => this.#schema(item, roots));
      case "schemaMap":
        if (tree.kind !== "map") return this.#bad(at, `"${name}" must be a map of schemas`) && {};
        return Object.fromEntries(
          entriesOf(at)
            .filter((entry) => name !== "patternProperties" || this.#pattern(entry.name, entry))
            .map((entry) => [entry.name, this.#schema(entry, roots)]),
        );
      case "dependencies":
        if (tree.kind !== "map") return this.#bad(at, `"${name}" must be a map`) && {};
        return Object.fromEntries(
          entriesOf(at).map((entry) => [
            entry.name,
            entry.tree.kind === "list" ? itemsOf(entry).map(({ tree: item }) => String(plainOf(item))) : this.#schema(entry, roots),
          ]),
        );
      case "pattern":
        return this.#pattern(String(plainOf(tree)), at) ? plainOf(tree) : "";
      default:
        return plainOf(tree);
    }
  }

  /** Reports a pattern that cannot be used. It is left out, and the document has an error. */
  #pattern(pattern: string, at: Spot): boolean {
    const wrong = wrongPattern(pattern);
    if (wrong === undefined) return true;
    const problem = `the pattern ${JSON.stringify(pattern.slice(0, 60))} ${wrong.why}`;
    if (wrong.isUnsupported)
      this.findings.add(
        "FLOW_UNSUPPORTED_PATTERN",
        at,
        `${problem}; this is not supported, because patterns must run in linear time`,
        "rewrite it: several patterns in allOf or not, alternatives written out, minLength and maxLength for long repetitions",
      );
    else this.#bad(at, problem);
    return false;
  }

  #bad(at: Spot, message: string): true {
    this.findings.add("FLOW_BAD_SCHEMA", at, message, "use JSON Schema draft-07");
    return true;
  }

  /** Rejects schemas that apply themselves to the same value, without end, or that apply too many schemas to one value. */
  #refuseLoops(name: string, spot: Spot): void {
    const work = new Map<string, number>();
    let tooFar = false;
    const workOf = (one: string, hops: number): number => {
      const known = work.get(one);
      if (known !== undefined) return known;
      work.set(one, Number.POSITIVE_INFINITY);
      tooFar ||= hops > hopsMax;
      const sum = tooFar
        ? Number.POSITIVE_INFINITY
        : sameValue(this.schemaOf(one)).reduce((total, ref) => total + workOf(ref, hops + 1), 1);
      work.set(one, sum);
      return sum;
    };
    const total = workOf(name, 0);
    if (total <= workMax) return;
    const loops = tooFar ? `the schema follows more than ${hopsMax} references` : "the schema applies itself to the same value";
    this.#bad(spot, Number.isFinite(total) ? `the schema applies ${total} schemas to one value; the maximum is ${workMax}` : loops);
    this.definitions[name] = true;
  }
}

const workMax = 10_000;

/** All references that are followed for the same value, with repetitions. */
function sameValue(schema: unknown): readonly string[] {
  if (typeof schema !== "object" || schema === null) return [];
  const { $ref, allOf, anyOf, oneOf, not, if: condition, then, else: otherwise } = schema as Record<string, unknown>;
  if (typeof $ref === "string") return [$ref.slice(prefix.length)];
  const lists = [allOf, anyOf, oneOf].flatMap((list) => (Array.isArray(list) ? (list as unknown[]) : []));
  return [...lists, not, condition, then, otherwise].flatMap(sameValue);
}

/** A schema with an `$id` is the root for pointers inside it. An `$id` such as `#name` is only a name. */
function isResource(spot: Spot): boolean {
  const id = childOf(spot, "$id")?.tree;
  return id?.kind === "scalar" && typeof id.value === "string" && !id.value.startsWith("#");
}

const isTrue = ({ tree }: Spot) => tree.kind === "scalar" && tree.value === true;

/** Converts keywords that OpenAPI 3.0 spells differently from draft-07. */
function adapted(schema: Record<string, unknown>, nullable: Spot | undefined): JsonSchema {
  for (const [exclusive, bound] of [
    ["exclusiveMinimum", "minimum"],
    ["exclusiveMaximum", "maximum"],
  ] as const) {
    if (typeof schema[exclusive] !== "boolean") continue;
    if (schema[exclusive] && schema[bound] !== undefined) schema[exclusive] = schema[bound];
    else delete schema[exclusive];
  }
  if (nullable !== undefined && isTrue(nullable) && typeof schema["type"] === "string") schema["type"] = [schema["type"], "null"];
  return schema;
}
