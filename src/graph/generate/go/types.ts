import type { JsonSchema } from "../../schema/compiler.js";
import { Names } from "../names.js";
import { goName } from "./names.js";
import { membersOf, objectOf, recursiveDefinitions, refOf, withoutNull } from "./schema.js";
import { alignedRows, goComment, goString, type Row } from "./text.js";

/** A Go type. Kinds that Go can leave out of JSON, or set to nil, need no pointer. */
interface GoType {
  readonly text: string;
  readonly isNilable: boolean;
}

const anything: GoType = { text: "any", isNilable: true };
const plain = (text: string): GoType => ({ text, isNilable: false });
const pointer = ({ text, isNilable }: GoType): GoType => (isNilable ? { text, isNilable } : { text: `*${text}`, isNilable: true });

/** Names that encoding/json accepts in a tag. Members with other names are in the map of extra members. */
const tagName = /^[\p{L}\p{N}!#$%&()*+\-./:;<=>?@[\]^_{|}~ ]+$/u;
const structTag = (name: string, options: string) => `\`json:"${name === "-" ? "-," : name}${options}"\``;

/** Declares Go types for JSON Schemas. If a type cannot express a schema, it is wider: `any`, or a map. */
export class GoTypes {
  readonly #definitions: Readonly<Record<string, JsonSchema>>;
  readonly #recursive: ReadonlySet<string>;
  readonly #names: Names;
  readonly #named = new Map<string, GoType>();
  readonly #declarations: string[] = [];

  constructor(definitions: Readonly<Record<string, JsonSchema>>, names: Names) {
    this.#definitions = definitions;
    this.#recursive = recursiveDefinitions(definitions);
    this.#names = names;
  }

  /** The declarations of all types that were asked for. */
  get declarations(): readonly string[] {
    return this.#declarations;
  }

  /** The type of a packet. `wanted` is its name if it needs a declaration of its own; `unknown` is the type of any packet. */
  packet(schema: unknown, wanted: string, unknown: string): string {
    const { text } = this.#type(schema, wanted);
    return text === "any" || text === "map[string]any" ? unknown : text.replace(/^\*/, "");
  }

  #type(schema: unknown, wanted: string): GoType {
    const ref = refOf(schema);
    if (ref !== undefined) return this.#reference(ref);
    const split = withoutNull(objectOf(schema));
    if (split === undefined) return anything;
    if (split.isNullable) return pointer(this.#type(split.schema, wanted));
    if (split.schema !== schema && refOf(split.schema) !== undefined) return this.#type(split.schema, wanted);
    return this.#kind(split.schema, wanted);
  }

  /** A definition is declared once. While it is being declared, it is known by its name: it may contain itself. */
  #reference(definition: string): GoType {
    const known = this.#named.get(definition);
    if (known !== undefined) return known;
    const wanted = goName(definition, "Packet");
    const schema = this.#definitions[definition];
    if (membersOf(schema, this.#definitions)?.properties.size) {
      const name = this.#names.take(wanted);
      const type = this.#recursive.has(definition) ? { text: `*${name}`, isNilable: true } : plain(name);
      this.#named.set(definition, type);
      this.#struct(schema, name);
      return type;
    }
    // Lists, maps and texts are written where they are used. One that contains itself is not written out.
    this.#named.set(definition, anything);
    const type = this.#recursive.has(definition) ? anything : this.#type(schema, wanted);
    this.#named.set(definition, type);
    return type;
  }

  #kind(schema: unknown, wanted: string): GoType {
    const { enum: values, type, items, allOf } = objectOf(schema);
    if (Array.isArray(values)) return this.#enum(values as unknown[], wanted, objectOf(schema)["description"]);
    const members = membersOf(schema, this.#definitions);
    if (members !== undefined) {
      if (members.properties.size > 0) {
        const name = this.#names.take(wanted);
        this.#struct(schema, name);
        return plain(name);
      }
      if (allOf !== undefined) return { text: "map[string]any", isNilable: true };
      const extra = typeof members.extra === "object" ? this.#type(members.extra, `${wanted}Value`).text : "any";
      return { text: `map[string]${extra}`, isNilable: true };
    }
    if (type === "array")
      return {
        text: `[]${typeof items === "object" && !Array.isArray(items) ? this.#type(items, `${wanted}Item`).text : "any"}`,
        isNilable: true,
      };
    const simple: Readonly<Record<string, string>> = { string: "string", integer: "int64", number: "float64", boolean: "bool" };
    const text = simple[String(type)];
    return text === undefined ? anything : plain(text);
  }

  #enum(values: readonly unknown[], wanted: string, description: unknown): GoType {
    const texts = [...new Set(values)].filter((value): value is string => typeof value === "string");
    if (texts.length === 0 || values.some((value) => typeof value !== "string" && value !== null)) return anything;
    const name = this.#names.take(wanted);
    const rows = texts.map((text): Row => ({ cells: [this.#names.take(`${name}${goName(text, "Value")}`), name, `= ${goString(text)}`] }));
    const about = `${name} is one of the texts below.${typeof description === "string" ? ` ${description}` : ""}`;
    this.#declarations.push(`${goComment(about)}type ${name} string\n\nconst (\n${alignedRows(rows)})\n`);
    return values.includes(null) ? pointer(plain(name)) : plain(name);
  }

  #struct(schema: unknown, name: string): void {
    const members = membersOf(schema, this.#definitions);
    if (members === undefined) return;
    const fields = new Names(["Extra", "MarshalJSON", "UnmarshalJSON"]);
    // Declared in the order of use: the place is taken before the types of the fields are declared.
    const place = this.#declarations.push("") - 1;
    const known = [...members.properties].filter(([member]) => tagName.test(member));
    const rows = known.map(([member, memberSchema]): Row => {
      const field = fields.take(goName(member, "Field"));
      const isRequired = members.required.has(member);
      const type = this.#type(memberSchema, `${name}${field}`);
      const { description } = objectOf(memberSchema);
      return {
        comment: typeof description === "string" && description.trim() !== "" ? `${field}: ${description}` : undefined,
        cells: [field, isRequired ? type.text : pointer(type).text, structTag(member, isRequired ? "" : ",omitempty")],
      };
    });
    const extra = this.#extraOf(members.extra, known.length < members.properties.size, name);
    if (extra !== undefined)
      rows.push({ comment: "Extra has the members that are not fields.", cells: ["Extra", `map[string]${extra}`, '`json:"-"`'] });
    const { description } = objectOf(schema);
    const about =
      typeof description === "string" && description.trim() !== ""
        ? goComment(`${name}: ${description}`)
        : goComment(`${name} is a packet, or a part of one.`);
    const methods =
      extra === undefined
        ? ""
        : this.#methods(
            name,
            known.map(([member]) => member),
          );
    this.#declarations[place] = `${about}type ${name} struct {\n${alignedRows(rows)}}\n${methods}`;
  }

  #extraOf(additional: unknown, hasUnnamed: boolean, name: string): string | undefined {
    if (typeof additional === "object" && !hasUnnamed) return this.#type(additional, `${name}Extra`).text;
    return hasUnnamed || additional === true || typeof additional === "object" ? "any" : undefined;
  }

  #methods(name: string, known: readonly string[]): string {
    const names = known.map((member) => `, ${goString(member)}`).join("");
    return `
// UnmarshalJSON implements json.Unmarshaler.
func (v *${name}) UnmarshalJSON(text []byte) error {
	type fields ${name}
	return flowdsl.UnmarshalWithExtra(text, (*fields)(v), &v.Extra${names})
}

// MarshalJSON implements json.Marshaler.
func (v ${name}) MarshalJSON() ([]byte, error) {
	type fields ${name}
	return flowdsl.MarshalWithExtra(fields(v), v.Extra)
}
`;
  }
}
