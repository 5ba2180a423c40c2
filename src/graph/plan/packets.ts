import { closest } from "../../core/errors/closest.js";
import type { Findings } from "../findings/finding.js";
import type { Components } from "../load/components.js";
import { type External, isExternal } from "../load/external/external.js";
import { schemaOfMessage } from "../load/external/message.js";
import { childOf, follow, nameIn, type Spot, type Tree } from "../load/tree.js";
import type { Message } from "../normalise/model.js";
import { messageOf } from "../normalise/node.js";
import { type JsonSchema, SchemaCompiler } from "../schema/compiler.js";
import { Explanations, type Problem } from "../schema/explain.js";
import { SchemaChecks } from "../schema/schema-check.js";
import { isValid } from "../schema/verdict.js";

/** A way in which a packet does not match its schema. */
export type PacketProblem = Problem;

/** A type of packet, with its schema. */
export interface PacketType {
  readonly name: string;
  /** The reference in the document; undefined for an inline schema. */
  readonly ref?: string;
  /** JSON Schema draft-07: a reference to one of the definitions. */
  readonly schema: JsonSchema;
  /** The definitions of the document, shared by all its packets. */
  readonly definitions: Readonly<Record<string, JsonSchema>>;
  /** Returns up to ten problems; an empty list if the packet is valid. Does not throw. */
  readonly check: (packet: unknown) => readonly PacketProblem[];
}

const noProblems: readonly PacketProblem[] = Object.freeze([]);
const problemsMax = 10;
const hopsMax = 20;

const packetSections = ["packets", "events", "schemas"] as const;
type PacketSection = (typeof packetSections)[number];

/** `#/components/packets/Order/properties/lines` */
const componentShape = /^#\/components\/(events|packets|schemas)\/([^/]+)(\/.*)?$/s;

/**
 * The packet types of a document: finds and compiles their schemas, and checks packets. If a packet fails its check, a second pass
 * over the schema explains why. Neither generates code, and both take time linear in the size of the packet.
 */
export class PacketTypes {
  readonly #compiler: SchemaCompiler;
  readonly #known = new Map<Tree, PacketType>();
  readonly #checks: SchemaChecks;
  readonly #explanations: Explanations;

  constructor(
    private readonly root: Tree,
    private readonly components: Components,
    private readonly external: External,
    private readonly findings: Findings,
  ) {
    this.#compiler = new SchemaCompiler(
      (ref, from, schemaRoots) => this.#followInSchema(ref, from, schemaRoots),
      (spot) => external.draftOf(spot),
      findings,
    );
    this.#checks = new SchemaChecks(this.#compiler.definitions);
    this.#explanations = new Explanations(this.#compiler.definitions, this.#checks);
  }

  resolved(schema: JsonSchema): JsonSchema {
    return this.#compiler.resolved(schema);
  }

  /** Undefined if the packet does not exist or its document was not loaded; a finding reports either. */
  of(message: Message | undefined): PacketType | undefined {
    if (message === undefined) return undefined;
    const { ref } = message;
    const spot = ref === undefined ? message.spot : this.#follow(ref, message.spot, 0);
    if (spot === undefined) return undefined;
    const known = this.#known.get(spot.tree);
    if (known !== undefined) return known;
    const definition = this.#compiler.define(spot);
    const check = this.#checks.of(definition);
    const type: PacketType = {
      name: ref?.split(/[/#]/).at(-1) ?? "inline",
      ...(ref !== undefined && { ref }),
      schema: { $ref: `#/definitions/${definition}` },
      definitions: this.#compiler.definitions,
      check: (packet) => (isValid(check, packet) ? noProblems : this.#explanations.of(definition, packet, problemsMax)),
    };
    this.#known.set(spot.tree, type);
    return type;
  }

  /** Compiles unused packets too, so that their errors are found before their first use. */
  checkUnused(): void {
    for (const section of ["packets", "schemas", "events"] as const)
      for (const name of this.components.names(section)) {
        const component = this.components.get(section, name);
        const spot = component && (section === "events" ? this.#payloadOf(component, 0) : component);
        if (spot !== undefined) this.of({ spot });
      }
  }

  #follow(ref: string, from: Spot, hops: number): Spot | undefined {
    if (hops > hopsMax) return this.#badRef(ref, from, "is circular");
    if (isExternal(ref)) return this.#followExternal(ref, from);
    const local = componentShape.exec(ref);
    if (local === null && ref.includes("#")) return this.#badRef(ref, from, "does not refer to a packet, an event or a schema");
    const [section, name, rest] =
      local === null ? (["packets", ref, ""] as const) : [local[1] as PacketSection, nameIn(local[2] ?? ""), local[3] ?? ""];
    const spot = this.components.get(section, name);
    if (spot === undefined) return this.#unknown(section, name, from);
    if (rest === "") return section === "events" ? this.#payloadOf(spot, hops) : spot;
    const part = follow(spot.tree, rest);
    return part === undefined ? this.#badRef(ref, from, "was not found") : { tree: part.tree, pointer: spot.pointer + part.pointer };
  }

  #unknown(section: PacketSection, name: string, from: Spot): undefined {
    this.findings.add("FLOW_UNKNOWN_PACKET", from, `"${name}" not found in components.${section}`, () => {
      const elsewhere = packetSections.find((other) => this.components.names(other).includes(name));
      if (elsewhere !== undefined) return `did you mean "#/components/${elsewhere}/${name}"?`;
      const near = closest(name, this.components.names(section));
      return near === undefined ? `add it to components.${section}` : `did you mean "${near}"?`;
    });
    return undefined;
  }

  /** An event has its schema in `payload`, or is itself a schema. */
  #payloadOf(event: Spot, hops: number): Spot | undefined {
    const payload = childOf(event, "payload");
    if (payload === undefined) return event;
    const message = messageOf(payload, this.findings);
    return message?.ref === undefined ? message?.spot : this.#follow(message.ref, message.spot, hops + 1);
  }

  #followExternal(ref: string, from: Spot): Spot | undefined {
    const find = (each: string, at: Spot) => this.external.find(each, at);
    const target = find(ref, from);
    const schema = typeof target === "object" && "spot" in target ? schemaOfMessage(target.spot, find) : target;
    if (schema === "reported") return undefined;
    return "spot" in schema ? schema.spot : this.#badRef(ref, from, schema.problem, schema.fix);
  }

  /** Follows a `$ref` in a schema: within its own document, or as in the rest of the flow document. */
  #followInSchema(ref: string, from: Spot, schemaRoots: readonly Spot[]): Spot | undefined {
    if (from.tree.source !== this.root.source) {
      const target = this.external.find(ref, from);
      if (target === "reported") return undefined;
      return "spot" in target ? target.spot : this.#badRef(ref, from, target.problem, target.fix ?? "correct the reference");
    }
    if (componentShape.test(ref) || !ref.startsWith("#")) return this.#follow(ref, from, 0);
    if (!/^#(?:\/|$)/.test(ref)) return this.#badRef(ref, from, "is not a JSON pointer");
    for (const root of schemaRoots) {
      const spot = follow(root.tree, ref.slice(1));
      if (spot !== undefined) return { tree: spot.tree, pointer: root.pointer + spot.pointer };
    }
    return follow(this.root, ref.slice(1)) ?? this.#badRef(ref, from, "was not found");
  }

  #badRef(ref: string, from: Spot, why: string, fix = defaultFix): undefined {
    this.findings.add("FLOW_BAD_REF", from, `"${ref.slice(0, 100)}" ${why}`, fix);
    return undefined;
  }
}

const defaultFix =
  "refer to #/components/packets/…, #/components/events/…, #/components/schemas/…, ./file.yaml#/…, asyncapi#/… or openapi#/…";
